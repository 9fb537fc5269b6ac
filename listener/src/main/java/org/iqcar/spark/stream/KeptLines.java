package org.iqcar.spark.stream;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;

/**
 * Keeps the first lines of a stream, and the last ones, within bounds; followers read at their own
 * pace.
 */
final class KeptLines {
  private final long mostFirst;
  private final long mostLast;
  private final List<KeptLine> first = new ArrayList<>();
  private final ArrayDeque<KeptLine> last = new ArrayDeque<>();
  private long firstBytes;
  private long lastBytes;
  /** Lines added so far. */
  private long added;
  private boolean ended;

  /**
   * Keeps nothing yet.
   *
   * @param mostFirst bytes of the first lines, which are never let go
   * @param mostLast bytes of the last lines
   */
  KeptLines(long mostFirst, long mostLast) {
    this.mostFirst = mostFirst;
    this.mostLast = mostLast;
  }

  synchronized void add(KeptLine line) {
    if (added == first.size() && firstBytes + line.bytes.length <= mostFirst) {
      first.add(line);
      firstBytes += line.bytes.length;
    } else {
      last.add(line);
      lastBytes += line.bytes.length;
      while (lastBytes > mostLast && last.size() > 1) {
        lastBytes -= last.remove().bytes.length;
      }
    }
    added++;
    notifyAll();
  }

  /** Says that no line comes any more. */
  synchronized void end() {
    ended = true;
    notifyAll();
  }

  /** What a follower gets next: lines, how many were let go before them, and whether it was all. */
  static final class Piece {
    final List<KeptLine> lines;
    final long lost;
    final long next;
    final boolean ended;

    Piece(List<KeptLine> lines, long lost, long next, boolean ended) {
      this.lines = lines;
      this.lost = lost;
      this.next = next;
      this.ended = ended;
    }
  }

  /**
   * Waits for lines.
   *
   * @param from number of the first line wanted, from 0
   * @param most lines at once
   * @param waitMs longest wait for one
   */
  synchronized Piece read(long from, int most, long waitMs) throws InterruptedException {
    if (from >= added && !ended) {
      wait(waitMs);
    }
    List<KeptLine> found = new ArrayList<>();
    long at = from;
    while (at < first.size() && found.size() < most) {
      found.add(first.get((int) at++));
    }
    long lost = 0;
    if (at >= first.size() && found.isEmpty()) {
      long oldest = added - last.size();
      lost = Math.max(0, oldest - at);
      at = Math.max(at, oldest);
      int skip = (int) (at - oldest);
      for (KeptLine line : last) {
        if (skip-- > 0) {
          continue;
        }
        if (found.size() == most) {
          break;
        }
        found.add(line);
        at++;
      }
    }
    return new Piece(found, lost, at, ended && at >= added);
  }
}
