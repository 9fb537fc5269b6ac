package org.iqcar.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import org.apache.spark.SparkContext;
import org.apache.spark.SparkContext$;
import org.apache.spark.SparkUserAppException;
import org.apache.spark.deploy.PythonRunner;
import org.iqcar.spark.safety.FaultInjection;
import scala.Option;

/**
 * A driver that runs applications one after the other, each with settings of its own, as
 * spark-submit runs one: starting a JVM and compiling Spark takes longer than most applications.
 *
 * <p>A line of standard input is the path of a JSON file about the next one: {@code "properties"},
 * which are Spark's settings and other system properties; {@code "main"}, a class or a Python file;
 * its {@code "arguments"}; and {@code "ended"}, the file that gets the exit code.
 */
public final class Applications {
  private static final ObjectMapper JSON = new ObjectMapper();

  private Applications() {}

  public static void main(String[] args) throws Exception {
    BufferedReader asked =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String path = asked.readLine(); path != null; path = asked.readLine()) {
      JsonNode application = JSON.readTree(new File(path));
      int exitCode = runWithItsProperties(application);
      System.out.flush();
      Path ended = Paths.get(application.get("ended").asText());
      byte[] code = String.valueOf(exitCode).getBytes(StandardCharsets.UTF_8);
      Files.move(Files.write(Paths.get(ended + ".written"), code), ended);
    }
    System.exit(0);
  }

  private static int runWithItsProperties(JsonNode application) {
    Properties before = (Properties) System.getProperties().clone();
    application.get("properties").fields()
        .forEachRemaining(one -> System.setProperty(one.getKey(), one.getValue().asText()));
    try {
      FaultInjection.forgetFailures();
      run(application);
      return 0;
    } catch (SparkUserAppException exit) {
      return exit.exitCode();
    } catch (Throwable failure) {
      failure.printStackTrace();
      return 1;
    } finally {
      stopWhatItLeft();
      System.setProperties(before);
    }
  }

  private static void run(JsonNode application) throws Throwable {
    String main = application.get("main").asText();
    List<String> words = new ArrayList<>();
    application.get("arguments").forEach(word -> words.add(word.asText()));
    if (main.endsWith(".py")) {
      words.add(0, main);
      words.add(1, ""); // no other Python files
      PythonRunner.main(words.toArray(new String[0]));
      return;
    }
    try {
      Class.forName(main).getMethod("main", String[].class)
          .invoke(null, (Object) words.toArray(new String[0]));
    } catch (InvocationTargetException failure) {
      throw failure.getCause();
    }
  }

  /** Stops a context that the application did not stop, as the end of its JVM would. */
  private static void stopWhatItLeft() {
    Option<SparkContext> left = SparkContext$.MODULE$.getActive();
    if (left.isDefined()) {
      left.get().stop();
    }
  }
}
