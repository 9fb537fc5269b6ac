package org.iqcar.spark.rules;

import java.io.IOException;
import java.io.InputStream;
import java.util.LinkedHashSet;
import java.util.Set;
import javax.xml.XMLConstants;
import javax.xml.parsers.ParserConfigurationException;
import javax.xml.parsers.SAXParserFactory;
import org.apache.spark.SparkConf;
import org.xml.sax.Attributes;
import org.xml.sax.SAXException;
import org.xml.sax.helpers.DefaultHandler;

/** Reads Spark's own file of pools, as Spark does when the scheduler starts in FAIR mode. */
final class AllocationFile {
  private static final String SETTING = "spark.scheduler.allocation.file";
  private static final String ON_CLASS_PATH = "fairscheduler.xml";

  /** Whether there is such a file. */
  final boolean present;
  /** Names of the pools in it. */
  final Set<String> pools;

  private AllocationFile(boolean present, Set<String> pools) {
    this.present = present;
    this.pools = pools;
  }

  /**
   * Reads the file that the configuration names, else the one on the class path.
   *
   * @param hadoop Spark's Hadoop configuration
   * @throws IOException if it cannot be read; Spark would not start in FAIR mode either
   */
  static AllocationFile read(SparkConf conf, Object hadoop) throws IOException {
    String path = conf.get(SETTING, null);
    ClassLoader loader = Thread.currentThread().getContextClassLoader();
    try (InputStream in = path != null ? RuleFile.openByHadoop(path, hadoop)
        : (loader == null ? AllocationFile.class.getClassLoader() : loader)
            .getResourceAsStream(ON_CLASS_PATH)) {
      return in == null ? new AllocationFile(false, new LinkedHashSet<>())
          : new AllocationFile(true, names(in));
    } catch (IOException | SAXException | ParserConfigurationException e) {
      throw new IOException((path == null ? ON_CLASS_PATH : SETTING + "=" + path)
          + " cannot be read (" + e.getMessage() + ")", e);
    }
  }

  private static Set<String> names(InputStream in)
      throws IOException, SAXException, ParserConfigurationException {
    Set<String> found = new LinkedHashSet<>();
    SAXParserFactory factory = SAXParserFactory.newInstance();
    factory.setFeature(XMLConstants.FEATURE_SECURE_PROCESSING, true);
    factory.newSAXParser().parse(in, new DefaultHandler() {
      @Override
      public void startElement(String uri, String local, String name, Attributes attributes) {
        if (name.equals("pool") && attributes.getValue("name") != null) {
          found.add(attributes.getValue("name"));
        }
      }
    });
    return found;
  }
}
