package org.iqcar.spark.driver.queries;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.iqcar.spark.text.PyRegex;
import org.iqcar.spark.text.TokenShapes;

/**
 * Removes from a query's name what differs between its runs (dates, times, ids, numbers of runs), as
 * the analyzer does (analyzer/iqcar/logs/text.py), after the data file that both
 * read.
 */
final class NameFamily {
  private static final Pattern LEFT = Pattern.compile("[\\p{L}\\p{N}]");

  /** What is replaced, if it changes between letters and numbers often enough. */
  private static final class Step {
    final Pattern shape;
    final int changes;

    Step(String shape, int changes) {
      this.shape = Pattern.compile(shape);
      this.changes = changes;
    }

    String apply(String text) {
      StringBuilder out = new StringBuilder();
      int done = 0;
      Matcher match = shape.matcher(text);
      for (boolean found = match.find(); found; found = match.find(done)) {
        String part = match.group(1);
        out.append(text, done, match.start(1)).append(changesOf(part) >= changes ? "*" : part);
        done = match.end(1);
      }
      return done == 0 ? text : out.append(text, done, text.length()).toString();
    }
  }

  private static final List<Step> STEPS = read();

  private NameFamily() {}

  /** The name as it is in every run of its query; blanks become single. */
  static String of(String name) {
    String text = PyRegex.oneBlank(name);
    for (Step step : STEPS) {
      text = step.apply(text);
    }
    return text;
  }

  /** Whether letters or numbers are left of a name: if not, it names every query alike. */
  static boolean tellsApart(String name) {
    return LEFT.matcher(of(name)).find();
  }

  private static int changesOf(String found) {
    int changes = 0;
    for (int i = 1; i < found.length(); i++) {
      changes += Character.isDigit(found.charAt(i)) != Character.isDigit(found.charAt(i - 1))
          ? 1 : 0;
    }
    return changes;
  }

  private static List<Step> read() {
    JsonNode data = TokenShapes.data("/iqcar_names.json");
    List<String[]> parts = new ArrayList<>();
    data.get("parts").fields().forEachRemaining(part ->
        parts.add(0, new String[] {"<" + part.getKey() + ">", part.getValue().asText()}));
    List<Step> steps = new ArrayList<>();
    for (JsonNode step : data.get("steps")) {
      String shape = step.get("shape").asText();
      for (String[] part : parts) {  // a part may hold parts above it, which come later here
        shape = shape.replace(part[0], part[1]);
      }
      steps.add(new Step(shape, step.path("changes").asInt(0)));
    }
    return steps;
  }
}
