package org.iqcar.spark.stream;

import java.nio.charset.StandardCharsets;

/** A line of the event log with its end, and where secrets may stand in it. */
final class KeptLine {
  final byte[] bytes;
  final boolean holdsProperties;
  final boolean holdsTexts;

  KeptLine(String line, boolean holdsProperties, boolean holdsTexts) {
    this.bytes = (line + "\n").getBytes(StandardCharsets.UTF_8);
    this.holdsProperties = holdsProperties;
    this.holdsTexts = holdsTexts;
  }
}
