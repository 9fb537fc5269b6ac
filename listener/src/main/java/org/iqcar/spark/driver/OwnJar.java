package org.iqcar.spark.driver;

import java.io.File;
import java.net.URISyntaxException;
import java.security.CodeSource;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkContext;
import org.iqcar.spark.safety.Safely;
import org.iqcar.spark.safety.SparkInternals;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Makes executors fetch this jar where only the driver has it.
 *
 * <p>An executor that lacks a configured plugin's class exits, and Spark starts another one without
 * end. Executors fetch the application's initial jars before they load plugins, so the jar is added
 * to those.
 */
final class OwnJar {
  private static final Logger LOG = LoggerFactory.getLogger(OwnJar.class);
  private static final String FIRST_JARS = "spark.app.initial.jar.urls";
  private static final String[] WAYS = {"spark.jars", "spark.yarn.dist.jars"};

  private OwnJar() {}

  /**
   * Leaves out where another context of the same settings served the jar: nobody answers there any
   * more, and executors that cannot fetch it crash.
   *
   * @param urls as in {@code spark.app.initial.jar.urls}
   * @param jar the jar's name
   */
  static String withoutServed(String urls, String jar) {
    List<String> kept = new ArrayList<>();
    for (String url : urls.split(",")) {
      if (!url.isEmpty() && !(url.startsWith("spark://") && url.endsWith("/" + jar))) {
        kept.add(url);
      }
    }
    return String.join(",", kept);
  }

  /** Adds the jar to the application's: each task then looks whether it has it. */
  private static String added(SparkContext sc, File jar) throws ReflectiveOperationException {
    sc.addJar(jar.getPath());
    for (Object url : SparkInternals.sequence(sc, "listJars")) {
      if (url.toString().endsWith("/" + jar.getName())) {
        return url.toString();
      }
    }
    throw new IllegalStateException(jar + " is not served");
  }

  /** Adds the jar to the application's initial jars, unless a setting distributes it already. */
  static void offer(SparkContext sc) throws URISyntaxException, ReflectiveOperationException {
    CodeSource source = OwnJar.class.getProtectionDomain().getCodeSource();
    if (sc.isLocal() || source == null) {
      return;
    }
    File jar = new File(source.getLocation().toURI());
    SparkConf conf = sc.conf();
    for (String way : WAYS) {
      if (conf.get(way, "").contains(jar.getName())) {
        return;
      }
    }
    if (!jar.isFile()) {
      LOG.warn("iqcar: the plugin is not in a jar ({}); executors that lack it cannot start", jar);
      return;
    }
    String served = Safely.get("serving the jar without adding it to the application", null,
        () -> sc.env().rpcEnv().fileServer().addJar(jar));
    String url = served == null ? added(sc, jar) : served;
    String known = withoutServed(conf.get(FIRST_JARS, ""), jar.getName());
    conf.set(FIRST_JARS, known.isEmpty() ? url : known + "," + url);
    LOG.info("iqcar: {} is not among the application's jars; executors fetch it from {}",
        jar.getName(), url);
  }
}
