package org.iqcar.spark.driver.queries;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Answers each line of standard input, which is a function's name and base64 of a text, with base64
 * of the function's result, for a test that compares the plugin with the analyzer; or, where the
 * name is "cost-3-of-NAME", with the time of the fastest of three calls.
 */
public final class FingerprintMain {
  private static final Pattern COST = Pattern.compile("cost-([0-9]+)-of-(.*)");

  private FingerprintMain() {}

  public static void main(String[] args) throws IOException {
    PrintStream out = new PrintStream(System.out, false, "UTF-8");
    BufferedReader in =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      String[] parts = line.split(" ", 2);
      String text =
          new String(Base64.getDecoder().decode(parts[1]), StandardCharsets.UTF_8);
      byte[] answer = answer(parts[0], text).getBytes(StandardCharsets.UTF_8);
      out.println(Base64.getEncoder().encodeToString(answer));
    }
    out.flush();
  }

  /** Processor time in ns, the least of some tries: the first ones run before compilation. */
  private static String cost(int tries, String question, String text) {
    ThreadMXBean clock = ManagementFactory.getThreadMXBean();
    long least = Long.MAX_VALUE;
    for (int i = 0; i < tries; i++) {
      long start = clock.getCurrentThreadCpuTime();
      answer(question, text);
      least = Math.min(least, clock.getCurrentThreadCpuTime() - start);
    }
    return String.valueOf(least);
  }

  /** The characters that this Java's Unicode does not know. */
  private static String undefined(String text) {
    StringBuilder out = new StringBuilder();
    text.codePoints().filter(one -> !Character.isDefined(one)).forEach(out::appendCodePoint);
    return out.toString();
  }

  private static String answer(String question, String text) {
    Matcher cost = COST.matcher(question);
    if (cost.matches()) {
      return cost(Integer.parseInt(cost.group(1)), cost.group(2), text);
    }
    switch (question) {
      case "normalise": return PlanFingerprint.normalise(text);
      case "plan-text": return PlanFingerprint.hashText(text);
      case "clean": return QueryName.clean(text);
      case "user-named": return String.valueOf(QueryName.isUsers(text));
      case "family": return NameFamily.of(text);
      case "tells-apart": return String.valueOf(NameFamily.tellsApart(text));
      case "fingerprint": return QueryName.fingerprint("name", text);
      case "connect": return QueryName.connectOperation(text, null);
      case "connect-tags": return QueryName.connectTags(text);
      case "undefined": return undefined(text);
      default: throw new IllegalArgumentException(question);
    }
  }
}
