package org.iqcar.spark.executor.threads;

import java.util.Arrays;
import java.util.HashSet;
import java.util.Set;
import org.iqcar.spark.events.WaitClass;

/**
 * Classifies by its stack what a thread that is off the processor waits for.
 *
 * <p>The innermost frame that matches one of {@link #RULES} decides: a Python stage that pulls its
 * input through a shuffle waits for the shuffle, not for Python. Without a match, the thread's
 * state and its top frame decide.
 */
public final class StackClassifier {
  /** The start of a class's name, of a method's name or null, and what waiting there means. */
  private static final class Rule {
    final String type;
    final String method;
    final WaitClass wait;

    Rule(String type, String method, WaitClass wait) {
      this.type = type;
      this.method = method;
      this.wait = wait;
    }

    boolean matches(String className, String methodName) {
      return className.startsWith(type) && (method == null || methodName.startsWith(method));
    }
  }

  private static Rule rule(String type, String method, WaitClass wait) {
    return new Rule(type, method, wait);
  }

  /** A client of an object store. */
  private static Rule store(String type) {
    return rule(type, null, WaitClass.OBJECT_STORE);
  }

  private static final String SPARK = "org.apache.spark.";

  private static final Rule[] RULES = {
    rule(SPARK + "memory.ExecutionMemoryPool", null, WaitClass.EXECUTION_MEMORY),
    rule(SPARK + "memory.StorageMemoryPool", null, WaitClass.STORAGE_MEMORY),
    rule(SPARK + "memory.UnifiedMemoryManager", "acquireStorage", WaitClass.STORAGE_MEMORY),
    rule(SPARK + "memory.UnifiedMemoryManager", "acquireUnroll", WaitClass.STORAGE_MEMORY),
    rule(SPARK + "memory.MemoryManager", "acquireStorage", WaitClass.STORAGE_MEMORY),
    rule(SPARK + "memory.MemoryManager", "releaseStorage", WaitClass.STORAGE_MEMORY),
    rule(SPARK + "memory.MemoryManager", "releaseUnroll", WaitClass.STORAGE_MEMORY),
    rule(SPARK + "memory.UnifiedMemoryManager", "acquireExecution", WaitClass.EXECUTION_MEMORY),
    rule(SPARK + "memory.MemoryManager", "acquireExecution", WaitClass.EXECUTION_MEMORY),
    rule(SPARK + "memory.MemoryManager", "release", WaitClass.EXECUTION_MEMORY),
    rule(SPARK + "memory.MemoryManager", "executionMemoryUsed", WaitClass.EXECUTION_MEMORY),
    rule(SPARK + "memory.TaskMemoryManager", "acquireExecution", WaitClass.EXECUTION_MEMORY),

    rule(SPARK + "storage.ShuffleBlockFetcherIterator", null, WaitClass.SHUFFLE_FETCH),
    rule(SPARK + "MapOutputTracker", null, WaitClass.SHUFFLE_FETCH),
    rule(SPARK + "io.ReadAheadInputStream", null, WaitClass.IO_READ),
    rule(SPARK + "util.collection.unsafe.sort.UnsafeSorterSpillReader", null, WaitClass.IO_READ),
    rule(SPARK + "storage.DiskStore", "getBytes", WaitClass.IO_READ),
    rule(SPARK + "util.ThreadUtils", "parmap", WaitClass.IO_READ),
    rule("org.apache.parquet.hadoop.ParquetFileReader", null, WaitClass.IO_READ),
    rule("org.apache.hadoop.fs.FSDataInputStream", null, WaitClass.IO_READ),
    rule("org.apache.hadoop.hdfs.DFSInputStream", null, WaitClass.IO_READ),
    rule(SPARK + "sql.execution.datasources.FileScanRDD", null, WaitClass.IO_READ),
    rule(SPARK + "rdd.HadoopRDD", null, WaitClass.IO_READ),
    rule(SPARK + "rdd.NewHadoopRDD", null, WaitClass.IO_READ),
    rule(SPARK + "sql.execution.datasources.v2.DataSourceRDD", null, WaitClass.IO_READ),
    rule(SPARK + "sql.execution.datasources.jdbc.JDBCRDD", null, WaitClass.IO_READ),
    store("com.amazonaws."), store("software.amazon."), store("com.amazon.ws.emr.hadoop.fs."),
    // Other file systems open files at once, and nobody waits for a future of theirs.
    store("org.apache.hadoop.util.functional.FutureIO"),
    store("org.apache.hadoop.fs.s3a."), store("org.apache.hadoop.fs.azure"),
    store("com.microsoft.azure."), store("com.azure."), store("com.google.cloud."),
    store("com.google.api.client."), store("org.apache.hadoop.fs.gs."),
    store("org.apache.hadoop.fs.aliyun."), store("org.apache.hadoop.fs.cosn."),
    store("org.apache.hadoop.fs.obs."), store("org.apache.hadoop.fs.tosfs."),
    rule(SPARK + "storage.DiskBlockObjectWriter", null, WaitClass.IO_WRITE),
    rule(SPARK + "storage.TimeTrackingOutputStream", null, WaitClass.IO_WRITE),
    rule(SPARK + "util.collection.unsafe.sort.UnsafeSorterSpillWriter", null, WaitClass.IO_WRITE),
    rule(SPARK + "shuffle.sort.BypassMergeSortShuffleWriter", null, WaitClass.IO_WRITE),
    rule(SPARK + "shuffle.IndexShuffleBlockResolver", null, WaitClass.IO_WRITE),
    rule(SPARK + "storage.DiskStore", "put", WaitClass.IO_WRITE),
    rule("org.apache.hadoop.util.Shell", null, WaitClass.IO_WRITE),
    rule("org.apache.hadoop.fs.FSDataOutputStream", null, WaitClass.IO_WRITE),
    rule("org.apache.hadoop.hdfs.DFSOutputStream", null, WaitClass.IO_WRITE),
    rule("org.apache.hadoop.mapreduce.lib.output.FileOutputCommitter", null, WaitClass.IO_WRITE),

    rule(SPARK + "api.python.", null, WaitClass.PYTHON_WORKER),
    rule(SPARK + "SparkEnv", "createPythonWorker", WaitClass.PYTHON_WORKER),

    rule(SPARK + "storage.BlockManagerMaster", null, WaitClass.DRIVER_RPC),
    rule(SPARK + "scheduler.OutputCommitCoordinator", null, WaitClass.DRIVER_RPC),
    rule(SPARK + "broadcast.TorrentBroadcast", null, WaitClass.DRIVER_RPC),
    rule(SPARK + "network.BlockTransferService", "fetchBlockSync", WaitClass.DRIVER_RPC),
    rule(SPARK + "util.NonFateSharing", null, WaitClass.CODEGEN_LOCK),
    rule(SPARK + "sql.catalyst.expressions.codegen.CodeGenerator$", null, WaitClass.CODEGEN_LOCK),
    rule("org.codehaus.janino.", null, WaitClass.CODEGEN_LOCK),
    rule("java.lang.ClassLoader", null, WaitClass.CODEGEN_LOCK),
    rule("java.net.URLClassLoader", null, WaitClass.CODEGEN_LOCK),
    rule("jdk.internal.loader.", null, WaitClass.CODEGEN_LOCK),
    rule("java.lang.Class", "getDeclared", WaitClass.CODEGEN_LOCK),
    rule("java.lang.Class", "forName", WaitClass.CODEGEN_LOCK),
  };

  private static final Rule PARTS =
      rule("org.apache.parquet.hadoop.util.wrapped.io.FutureIO", null, WaitClass.IO_READ);
  private static final String MEMORY_STORE = SPARK + "storage.memory.MemoryStore";
  /** Dropping a cached block to make room is a wait for memory, whatever frames write it. */
  private static final Rule EVICTION =
      rule(MEMORY_STORE, "evictBlocks", WaitClass.STORAGE_MEMORY);
  /** Decides only where no frame inside the call matches a rule. */
  private static final Rule ASK = rule(SPARK + "rpc.Rpc", null, WaitClass.DRIVER_RPC);

  /** Classes whose native methods do IO; those of Snappy and LZ4 compute. */
  private static final Set<String> FILES = new HashSet<>(Arrays.asList(
      "java.io.FileInputStream", "java.io.FileOutputStream", "java.io.RandomAccessFile",
      "java.io.UnixFileSystem", "java.io.FileDescriptor", "sun.nio.ch.FileDispatcherImpl",
      "sun.nio.ch.UnixFileDispatcherImpl", "sun.nio.ch.FileChannelImpl",
      "sun.nio.fs.UnixNativeDispatcher", "java.lang.ProcessImpl"));
  private static final Set<String> SOCKETS = new HashSet<>(Arrays.asList(
      "sun.nio.ch.SocketDispatcher", "sun.nio.ch.UnixDomainSockets", "sun.nio.ch.Net",
      "sun.nio.ch.EPoll", "sun.nio.ch.EPollArrayWrapper", "sun.nio.ch.KQueue",
      "sun.nio.ch.NioSocketImpl", "java.net.SocketInputStream", "java.net.SocketOutputStream",
      "java.net.PlainSocketImpl", "java.net.Inet4AddressImpl", "java.net.Inet6AddressImpl"));

  private StackClassifier() {}

  /**
   * What a thread waits for that is asleep according to the kernel.
   *
   * @param stack its frames, innermost first
   * @param disk whether it sleeps uninterruptibly (the kernel's state D)
   * @param paused whether the JVM has stopped for garbage collection since the last look
   */
  public static WaitClass classify(
      Thread.State state, StackTraceElement[] stack, boolean disk, boolean paused) {
    if (stack.length == 0) {
      return WaitClass.OTHER;
    }
    switch (state) {
      case RUNNABLE: return inNative(stack, disk, paused);
      case BLOCKED: return blocked(stack);
      default: return waiting(stack);
    }
  }

  /**
   * Whether the thread waits for parts of a file that other threads read for it: of a local file, or
   * of an object store, whose client is in their stacks then.
   */
  public static boolean awaitsParts(StackTraceElement[] stack) {
    for (StackTraceElement frame : stack) {
      if (PARTS.matches(frame.getClassName(), frame.getMethodName())) {
        return true;
      }
    }
    return false;
  }

  /** Whether the top frame is a native method that does IO, so the thread may sleep in it. */
  public static boolean doesIo(StackTraceElement[] stack) {
    return stack.length > 0 && stack[0].isNativeMethod()
        && (FILES.contains(stack[0].getClassName()) || SOCKETS.contains(stack[0].getClassName()));
  }

  private static WaitClass inNative(
      StackTraceElement[] stack, boolean disk, boolean paused) {
    if (!doesIo(stack)) {
      // Asleep on a disk without a system call: the kernel reads a page for the thread.
      if (disk) {
        return WaitClass.PAGE_FAULT;
      }
      // Some clients read sockets in native code of their own.
      if (!paused && stack[0].isNativeMethod()
          && innermost(stack) == WaitClass.OBJECT_STORE) {
        return WaitClass.OBJECT_STORE;
      }
      // Java code sleeps only where the JVM stops it; native code also for reasons of its own.
      return paused || !stack[0].isNativeMethod() ? WaitClass.GC_SAFEPOINT : WaitClass.NATIVE;
    }
    WaitClass named = innermost(stack);
    String top = stack[0].getMethodName();
    if (SOCKETS.contains(stack[0].getClassName())) {
      return named == null ? WaitClass.OTHER : named;
    }
    if (named == WaitClass.PYTHON_WORKER || named == WaitClass.CODEGEN_LOCK
        || named == WaitClass.STORAGE_MEMORY) {
      return named;
    }
    boolean reads = top.startsWith("read") || top.startsWith("pread") || top.startsWith("open")
        || top.startsWith("stat") || top.startsWith("getBooleanAttributes")
        || top.startsWith("getLength") || top.startsWith("map") || top.startsWith("list");
    boolean opensToWrite = stack[0].getClassName().equals("java.io.FileOutputStream");
    return reads && !opensToWrite ? WaitClass.IO_READ : WaitClass.IO_WRITE;
  }

  private static WaitClass blocked(StackTraceElement[] stack) {
    // It asks for memory to unroll a block while who holds the memory manager's lock evicts others.
    if (stack[0].getClassName().startsWith(MEMORY_STORE)) {
      return WaitClass.STORAGE_MEMORY;
    }
    WaitClass named = innermost(stack);
    if (named == null) {
      return WaitClass.MONITOR_BLOCKED;
    }
    switch (named) {
      case EXECUTION_MEMORY:
      case STORAGE_MEMORY:
      case CODEGEN_LOCK:
      case PYTHON_WORKER:
        return named;
      default:
        return WaitClass.MONITOR_BLOCKED;
    }
  }

  private static WaitClass waiting(StackTraceElement[] stack) {
    WaitClass named = innermost(stack);
    if (named != null) {
      return named;
    }
    boolean lock = false;
    for (StackTraceElement frame : stack) {
      String type = frame.getClassName();
      if (type.equals("java.lang.Thread") && frame.getMethodName().startsWith("sleep")) {
        return WaitClass.OTHER;
      }
      if (type.endsWith("ConditionObject")) {
        return WaitClass.NOTIFICATION_WAIT;
      }
      lock |= type.startsWith("java.util.concurrent.locks.Reentrant");
    }
    return lock ? WaitClass.MONITOR_BLOCKED : WaitClass.NOTIFICATION_WAIT;
  }

  /** The class of the innermost frame that matches a rule, or null. */
  private static WaitClass innermost(StackTraceElement[] stack) {
    WaitClass found = null;
    boolean asks = false;
    for (StackTraceElement frame : stack) {
      String type = frame.getClassName();
      String method = frame.getMethodName();
      if (EVICTION.matches(type, method)) {
        return EVICTION.wait;
      }
      asks |= ASK.matches(type, method);
      for (int i = 0; found == null && i < RULES.length; i++) {
        if (RULES[i].matches(type, method)) {
          found = RULES[i].wait;
        }
      }
    }
    return found == null && asks ? WaitClass.DRIVER_RPC : found;
  }
}
