package org.iqcar.spark.executor.python;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Collections;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class PythonTaskTest {
  @TempDir Path proc;

  private static int searches(PythonTask task, int looks, long... pids) {
    int searches = 0;
    for (int look = 0; look < looks; look++) {
      if (task.isDue()) {
        searches++;
        task.found(pids.length == 0
            ? Collections.emptyList() : Collections.singletonList(pids[0]));
      }
    }
    return searches;
  }

  @Test
  void aTaskWithoutWorkersIsSearchedLessAndLess() {
    PythonTask task = new PythonTask(proc.toString());
    int first = searches(task, 100);
    assertTrue(first >= 5 && first <= 10, first + " searches");
    int later = searches(task, 100_000);
    assertTrue(later <= 105, later + " searches");
  }

  @Test
  void aTaskWithWorkersIsSearchedNowAndThenForMore() throws Exception {
    Path folder = Files.createDirectories(proc.resolve("7"));
    Files.write(folder.resolve("stat"), "7 (python3) S 1 2 3 4 5 6 7 8 9 10 0 0 13 14"
        .getBytes(StandardCharsets.US_ASCII));
    Files.write(folder.resolve("schedstat"), "1 2 3".getBytes(StandardCharsets.US_ASCII));
    PythonTask task = new PythonTask(proc.toString());
    assertEquals(200, searches(task, 10_000, 7), 5);
    task.close();
    assertFalse(task.isDue());
  }
}
