package org.iqcar.spark.driver.stream;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTimeoutPreemptively;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.Test;

class KeptLinesTest {
  private static KeptLines.Line line(int number) {
    return new KeptLines.Line(String.format("%03d", number), false, false);
  }

  /** Reads to the end; what was lost stands as a negative number. */
  private static List<Integer> all(KeptLines kept, int atOnce) throws InterruptedException {
    List<Integer> found = new ArrayList<>();
    KeptLines.Piece piece;
    long next = 0;
    do {
      piece = kept.read(next, atOnce, 10);
      if (piece.lost > 0) {
        found.add((int) -piece.lost);
      }
      for (KeptLines.Line line : piece.lines) {
        found.add(Integer.parseInt(new String(line.bytes, StandardCharsets.UTF_8).trim()));
      }
      assertTrue(piece.lines.size() <= atOnce);
      next = piece.next;
    } while (!piece.ended);
    return found;
  }

  @Test
  void aFollowerGetsEveryLineInOrder() throws Exception {
    for (int atOnce : new int[] {1, 3, 100}) {
      KeptLines kept = new KeptLines(4 * 5, 1000);
      List<Integer> expected = new ArrayList<>();
      for (int i = 0; i < 50; i++) {
        kept.add(line(i));
        expected.add(i);
      }
      kept.end();
      assertEquals(expected, all(kept, atOnce));
    }
  }

  @Test
  void whoComesLateGetsTheFirstAndTheLastLinesAndIsToldHowManyAreMissing() throws Exception {
    for (int atOnce : new int[] {1, 4, 100}) {
      KeptLines kept = new KeptLines(4 * 2, 4 * 3);
      for (int i = 0; i < 20; i++) {
        kept.add(line(i));
      }
      kept.end();
      assertEquals(Arrays.asList(0, 1, -15, 17, 18, 19), all(kept, atOnce));
    }
  }

  @Test
  void aFollowerReadsFromItsPlaceHoweverManyLinesAreKept() {
    int lines = 1_000_000;
    KeptLines kept = new KeptLines(0, Long.MAX_VALUE);
    KeptLines.Line line = line(7);
    for (int i = 0; i < lines; i++) {
      kept.add(line);
    }
    kept.end();
    // To walk over all lines at each of so many readings takes half an hour.
    assertTimeoutPreemptively(Duration.ofMinutes(2),
        () -> assertEquals(lines, all(kept, 1).size()));
  }

  @Test
  void aStreamWithoutLinesEnds() throws Exception {
    KeptLines kept = new KeptLines(10, 10);
    kept.end();
    assertTrue(all(kept, 1).isEmpty());
  }
}
