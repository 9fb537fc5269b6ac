package org.iqcar.spark.driver.stream;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/**
 * Keeps the first lines of a stream, and the last ones, within bounds; followers read at their own
 * pace.
 */
final class KeptLines {
  /** A line of the event log with its end, and where secrets may stand in it. */
  static final class Line {
    final byte[] bytes;
    final boolean holdsProperties;
    final boolean holdsTexts;

    Line(String line, boolean holdsProperties, boolean holdsTexts) {
      this.bytes = (line + "\n").getBytes(StandardCharsets.UTF_8);
      this.holdsProperties = holdsProperties;
      this.holdsTexts = holdsTexts;
    }
  }

  private final long mostFirst;
  private final long mostLast;
  private final List<Line> first = new ArrayList<>();
  /** The last lines: line n lies at n modulo the length, which is a power of two. */
  private Line[] last = new Line[64];
  /** Number of the oldest of the last lines; {@link #added} where there is none. */
  private long oldest;
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

  synchronized void add(Line line) {
    if (added == first.size() && firstBytes + line.bytes.length <= mostFirst) {
      first.add(line);
      firstBytes += line.bytes.length;
      oldest++;
    } else {
      if (added - oldest == last.length) {
        Line[] longer = new Line[2 * last.length];
        for (long n = oldest; n < added; n++) {
          longer[(int) n & longer.length - 1] = last[place(n)];
        }
        last = longer;
      }
      last[place(added)] = line;
      lastBytes += line.bytes.length;
      for (; lastBytes > mostLast && oldest < added; oldest++) {
        lastBytes -= last[place(oldest)].bytes.length;
        last[place(oldest)] = null;
      }
    }
    added++;
    notifyAll();
  }

  private int place(long number) {
    return (int) number & last.length - 1;
  }

  /** Says that no line comes any more. */
  synchronized void end() {
    ended = true;
    notifyAll();
  }

  /** What a follower gets next: lines, how many were let go before them, and whether it was all. */
  static final class Piece {
    final List<Line> lines;
    final long lost;
    final long next;
    final boolean ended;

    Piece(List<Line> lines, long lost, long next, boolean ended) {
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
    if (from < first.size()) {
      int end = (int) Math.min(first.size(), from + most);
      return piece(new ArrayList<>(first.subList((int) from, end)), 0, end);
    }
    long begin = Math.max(from, oldest);
    long end = Math.min(added, begin + most);
    List<Line> found = new ArrayList<>();
    for (long n = begin; n < end; n++) {
      found.add(last[place(n)]);
    }
    return piece(found, begin - from, end);
  }

  private Piece piece(List<Line> lines, long lost, long next) {
    return new Piece(lines, lost, next, ended && next >= added);
  }
}
