package org.iqcar.spark;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import org.iqcar.spark.events.WaitClass;
import org.iqcar.spark.settings.Setting;
import org.junit.jupiter.api.Test;

/** Compares docs/listener.md with the settings and classes of waiting in the code. */
class DocsTest {
  private static String page() throws IOException {
    return new String(
        Files.readAllBytes(Paths.get("..", "docs", "listener.md")), StandardCharsets.UTF_8);
  }

  @Test
  void everySettingIsDocumentedAsDeclared() throws IOException {
    for (Setting setting : Setting.values()) {
      String row = String.format("| `%s` | `%s` | %s | %s |",
          setting.key, setting.fallback, setting.since, setting.doc);
      assertTrue(page().contains(row), () -> "docs/listener.md lacks: " + row);
    }
  }

  @Test
  void everyWaitClassIsDocumentedAsDeclared() throws IOException {
    for (WaitClass wait : WaitClass.ALL) {
      String row = String.format("| `%s` | %s |", wait.label, wait.doc);
      assertTrue(page().contains(row), () -> "docs/listener.md lacks: " + row);
    }
  }
}
