package org.iqcar.spark.events;

import java.util.Locale;

/** The classes of waiting: what a task that is off the processor waits for. */
public enum WaitClass {
  EXECUTION_MEMORY("Memory to join, sort or aggregate in."),
  STORAGE_MEMORY("Memory to cache or broadcast in, and the eviction that makes room."),
  SHUFFLE_FETCH("Shuffle blocks from other hosts and where they are."),
  IO_READ("Input, spill and shuffle files being read."),
  IO_WRITE("Output, spill and shuffle files being written, created, renamed or deleted."),
  OBJECT_STORE("An object store (S3, Azure, Google and their like): requests, retries, uploads."),
  PAGE_FAULT("Pages of memory being read from a mapped file or from swap."),
  MONITOR_BLOCKED("A lock that another thread holds."),
  NOTIFICATION_WAIT("Another thread's notification, and no other class fits."),
  PYTHON_WORKER("A Python worker, before the plugin knows which process it is."),
  PYTHON_CPU("A Python worker that was computing."),
  PYTHON_RUN_QUEUE("A Python worker that was runnable while others had the processor."),
  PYTHON_IO("A Python worker in uninterruptible sleep: disk."),
  PYTHON_OTHER("A Python worker that was asleep: its own sleep, network, locks, or its input."),
  DRIVER_RPC("An answer from the driver: block locations, broadcast pieces, commit permission."),
  CODEGEN_LOCK("Generated code being compiled, or classes being loaded, by another thread."),
  GC_SAFEPOINT("The whole JVM stopped, mostly for garbage collection."),
  NATIVE("Native code that was asleep: its own locks, threads, devices or network."),
  OTHER("Anything else, and time that no sample fell into.");

  /** Every class, in the order of {@link #ordinal}. */
  public static final WaitClass[] ALL = values();

  /** The sentence in the documentation. */
  public final String doc;
  /** The name in records. */
  public final String label;

  WaitClass(String doc) {
    this.doc = doc;
    this.label = name().toLowerCase(Locale.ROOT);
  }

  /** Whether one thread has what others wait for. */
  public boolean isLock() {
    return this == MONITOR_BLOCKED || this == CODEGEN_LOCK;
  }
}
