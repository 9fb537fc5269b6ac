package org.iqcar.spark.stream;

import java.nio.charset.StandardCharsets;

/** A line of the event log with its end, and whether secrets may stand among its properties. */
final class KeptLine {
  final byte[] bytes;
  final boolean holdsProperties;

  KeptLine(String line, boolean holdsProperties) {
    this.bytes = (line + "\n").getBytes(StandardCharsets.UTF_8);
    this.holdsProperties = holdsProperties;
  }
}
