package org.iqcar.spark.measure;

import java.util.concurrent.atomic.LongAdder;

/** What the sampler has cost so far. The sampler's thread adds; any thread reads, without waiting. */
public final class SamplerCost {
  final LongAdder cpu = new LongAdder();
  final LongAdder stopped = new LongAdder();
  final LongAdder elapsed = new LongAdder();
  private final double share;
  private final int processors;

  SamplerCost(double share, int processors) {
    this.share = share;
    this.processors = processors;
  }

  /** Processor time of the sampler's threads, in s. */
  public double cpuSeconds() {
    return cpu.sum() / 1e9;
  }

  /** For how long the JVM was stopped to read stacks, at most, in s. */
  public double stoppedSeconds() {
    return stopped.sum() / 1e9;
  }

  /** How long the sampler has run, up to its last look, in s. */
  public double elapsedSeconds() {
    return elapsed.sum() / 1e9;
  }

  /** The part that is spent of what the settings allow for that time: 1 is all. */
  public double budgetUsed() {
    double allowed = share * elapsedSeconds();
    return allowed > 0 ? (stoppedSeconds() + cpuSeconds() / processors) / allowed : 0;
  }
}
