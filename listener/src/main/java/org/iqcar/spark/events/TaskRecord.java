package org.iqcar.spark.events;

import com.fasterxml.jackson.core.io.JsonStringEncoder;
import java.nio.charset.StandardCharsets;
import java.util.EnumSet;
import java.util.Set;

/** Builds one task's record as compact JSON. */
public final class TaskRecord {
  /** Version of the format; raised when a reader of the old one would misread the new one. */
  static final int VERSION = 1;
  /** Most characters of a text: users choose pool names, and each record repeats them. */
  private static final int MOST_LETTERS = 1_000;
  private static final String[] IO = {
    "chars_read", "chars_written", null, null, "disk_bytes_read", "disk_bytes_written"};

  private static final Set<WaitClass> ALWAYS =
      EnumSet.of(WaitClass.OBJECT_STORE, WaitClass.PAGE_FAULT);

  private final StringBuilder out = new StringBuilder(512).append("{\"v\":").append(VERSION);

  private StringBuilder key(String name) {
    return out.append(",\"").append(name).append("\":");
  }

  /** Adds a number. */
  public TaskRecord number(String name, long value) {
    key(name).append(value);
    return this;
  }

  /** Adds a number, unless it was not measured: then the field is missing, not zero. */
  public TaskRecord known(String name, long value, boolean measured) {
    return measured ? number(name, value) : this;
  }

  /** Adds text, unless it is null. */
  public TaskRecord text(String name, String value) {
    if (value != null) {
      quote(value, key(name));
    }
    return this;
  }

  /** Adds JSON as it is, unless it is null. */
  public TaskRecord raw(String name, String json) {
    if (json != null) {
      key(name).append(json);
    }
    return this;
  }

  /**
   * Adds the wait of each class, in ns by {@link WaitClass#ordinal}. Zeros are left out, but for
   * classes that older records had under other names: readers must know that they were looked for.
   */
  public TaskRecord waits(long[] nanos) {
    StringBuilder waits = key("waits_ns").append('{');
    boolean first = true;
    for (WaitClass wait : WaitClass.ALL) {
      if (nanos[wait.ordinal()] > 0 || ALWAYS.contains(wait)) {
        waits.append(first ? "\"" : ",\"").append(wait.label).append("\":");
        waits.append(nanos[wait.ordinal()]);
        first = false;
      }
    }
    waits.append('}');
    return this;
  }

  /** Adds the bytes moved between two readings of {@code KernelThread.ownIo}. */
  public TaskRecord io(long[] start, long[] end) {
    for (int i = 0; i < IO.length; i++) {
      if (IO[i] != null) {
        number(IO[i], end[i] - start[i]);
      }
    }
    return this;
  }

  /** The record; nothing may be added afterwards. */
  public String json() {
    return out.append('}').toString();
  }

  private static void quote(String text, StringBuilder out) {
    // Half a surrogate pair becomes a question mark: with it Spark would lose the whole event.
    String value = new String(text.substring(0, Math.min(text.length(), MOST_LETTERS))
        .getBytes(StandardCharsets.UTF_8), StandardCharsets.UTF_8);
    out.append('"');
    JsonStringEncoder.getInstance().quoteAsString(value, out);
    out.append('"');
  }
}
