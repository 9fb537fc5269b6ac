package org.iqcar.spark.executor.threads;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import org.iqcar.spark.events.WaitClass;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Classifies stacks seen on real Sparks, innermost frame first; a * marks a native method. */
class StackClassifierTest {
  private static final String PARK =
      "jdk.internal.misc.Unsafe.park* java.util.concurrent.locks.LockSupport.park ";
  private static final String CONDITION =
      PARK + "java.util.concurrent.locks.AbstractQueuedSynchronizer$ConditionObject.await ";
  private static final String S = "org.apache.spark.";

  @ParameterizedTest
  @CsvSource(delimiter = '|', value = {
    "WAITING | EXECUTION_MEMORY | WAIT ~memory.ExecutionMemoryPool.acquireMemory"
        + " ~memory.UnifiedMemoryManager.acquireExecutionMemory"
        + " ~memory.TaskMemoryManager.acquireExecutionMemory",
    "BLOCKED | EXECUTION_MEMORY | ~memory.MemoryManager.releaseExecutionMemory",
    "BLOCKED | EXECUTION_MEMORY | ~memory.UnifiedMemoryManager.acquireExecutionMemory",
    "BLOCKED | STORAGE_MEMORY | ~memory.UnifiedMemoryManager.acquireUnrollMemory"
        + " ~storage.memory.MemoryStore.putIterator",
    "BLOCKED | STORAGE_MEMORY | ~storage.memory.MemoryStore.reserveUnrollMemoryForThisTask"
        + " ~storage.memory.MemoryStore.putIterator ~storage.BlockManager.doPutIterator",
    "RUNNABLE | STORAGE_MEMORY | java.io.FileOutputStream.writeBytes*"
        + " ~storage.DiskStore.putBytes ~storage.memory.MemoryStore.evictBlocksToFreeSpace",
    "WAITING | IO_READ | COND ~io.ReadAheadInputStream.waitForAsyncReadComplete"
        + " ~util.collection.unsafe.sort.UnsafeSorterSpillReader.loadNext",
    "WAITING | SHUFFLE_FETCH | COND java.util.concurrent.LinkedBlockingQueue.take"
        + " ~storage.ShuffleBlockFetcherIterator.next",
    "WAITING | SHUFFLE_FETCH | PARK ~rpc.RpcTimeout.awaitResult ~rpc.RpcEndpointRef.askSync"
        + " ~MapOutputTracker.askTracker",
    "WAITING | SHUFFLE_FETCH | WAIT ~util.KeyLock.acquireLock"
        + " ~MapOutputTrackerWorker.getStatuses",
    "WAITING | DRIVER_RPC | WAIT ~util.KeyLock.acquireLock"
        + " ~broadcast.TorrentBroadcast.readBroadcastBlock",
    "WAITING | DRIVER_RPC | PARK scala.concurrent.impl.Promise$CompletionLatch.tryAcquireNanos"
        + " ~rpc.RpcTimeout.awaitResult ~rpc.RpcEndpointRef.askSync"
        + " ~storage.BlockManagerMaster.updateBlockInfo",
    "WAITING | DRIVER_RPC | PARK ~rpc.RpcTimeout.awaitResult"
        + " ~scheduler.OutputCommitCoordinator.canCommit",
    "WAITING | DRIVER_RPC | PARK ~rpc.RpcEndpointRef.askSync com.example.Job.run",
    "WAITING | CODEGEN_LOCK | WAIT ~util.KeyLock.acquireLock"
        + " ~util.NonFateSharingLoadingCache.get"
        + " ~sql.catalyst.expressions.codegen.CodeGenerator$.compile",
    "BLOCKED | CODEGEN_LOCK | java.lang.ClassLoader.loadClass",
    "BLOCKED | CODEGEN_LOCK | java.lang.Class.getDeclaredMethods0",
    "RUNNABLE | PYTHON_WORKER | sun.nio.ch.EPoll.wait* sun.nio.ch.EPollSelectorImpl.doSelect"
        + " ~api.python.BasePythonRunner$ReaderInputStream.read",
    "RUNNABLE | PYTHON_WORKER | java.io.FileInputStream.readBytes*"
        + " ~api.python.PythonWorkerFactory.startDaemon",
    "BLOCKED | PYTHON_WORKER | ~SparkEnv.createPythonWorker",
    "WAITING | SHUFFLE_FETCH | COND ~storage.ShuffleBlockFetcherIterator.next"
        + " ~api.python.PythonRunner$$anon$1.writeNextInputToStream",
    "RUNNABLE | IO_READ | java.io.FileInputStream.readBytes*"
        + " org.apache.hadoop.fs.RawLocalFileSystem$LocalFSFileInputStream.read"
        + " org.apache.parquet.hadoop.ParquetFileReader.readAll",
    "WAITING | IO_READ | PARK ~util.ThreadUtils$.parmap",
    "RUNNABLE | IO_WRITE | java.io.FileOutputStream.writeBytes*"
        + " ~storage.TimeTrackingOutputStream.write ~storage.DiskBlockObjectWriter.write",
    "RUNNABLE | IO_WRITE | sun.nio.ch.FileDispatcherImpl.write0*"
        + " ~shuffle.sort.BypassMergeSortShuffleWriter.writePartitionedData",
    "RUNNABLE | IO_WRITE | java.io.UnixFileSystem.delete0*",
    "WAITING | IO_WRITE | WAIT java.lang.Thread.join org.apache.hadoop.util.Shell.joinThread",
    "RUNNABLE | OBJECT_STORE | sun.nio.ch.Net.poll* sun.nio.ch.NioSocketImpl.park"
        + " java.net.Socket$SocketInputStream.read org.apache.http.impl.io.SessionInputBufferImpl.fill"
        + " software.amazon.awssdk.http.apache.internal.impl.ApacheSdkHttpClient.execute"
        + " org.apache.hadoop.fs.s3a.S3AInputStream.read org.apache.hadoop.fs.FSDataInputStream.read"
        + " ~sql.execution.datasources.FileScanRDD.compute",
    "WAITING | OBJECT_STORE | PARK org.apache.hadoop.util.functional.FutureIO.awaitFuture"
        + " org.apache.hadoop.mapreduce.lib.input.LineRecordReader.initialize",
    "TIMED_WAITING | OBJECT_STORE | java.lang.Thread.sleep*"
        + " org.apache.hadoop.fs.s3a.Invoker.retryUntranslated",
    "WAITING | OBJECT_STORE | PARK java.util.concurrent.CompletableFuture.get"
        + " org.apache.hadoop.fs.s3a.S3ABlockOutputStream.close"
        + " org.apache.hadoop.fs.FSDataOutputStream.close",
    "RUNNABLE | OBJECT_STORE | sun.nio.ch.Net.poll* sun.net.www.http.HttpClient.parseHTTP"
        + " org.apache.hadoop.fs.azurebfs.services.AbfsHttpOperation.processResponse",
    "RUNNABLE | OBJECT_STORE | org.wildfly.openssl.SSLImpl.readFromSSL0*"
        + " com.google.cloud.hadoop.gcsio.GoogleCloudStorageReadChannel.read",
    "RUNNABLE | IO_WRITE | java.io.FileOutputStream.writeBytes*"
        + " org.apache.hadoop.fs.s3a.S3ADataBlocks$DiskBlock.write",
    "BLOCKED | MONITOR_BLOCKED | org.apache.hadoop.fs.s3a.S3AInputStream.read",
    "WAITING | SHUFFLE_FETCH | COND ~storage.ShuffleBlockFetcherIterator.next"
        + " org.apache.hadoop.fs.s3a.S3AFileSystem.create",
    "RUNNABLE | NATIVE | org.xerial.snappy.SnappyNative.rawUncompress*"
        + " java.io.FileInputStream.read",
    "RUNNABLE | GC_SAFEPOINT | com.example.Job.compute",
    "BLOCKED | MONITOR_BLOCKED | com.example.Job.update"
        + " ~storage.ShuffleBlockFetcherIterator.next",
    "WAITING | MONITOR_BLOCKED | PARK"
        + " java.util.concurrent.locks.AbstractQueuedSynchronizer.acquire"
        + " java.util.concurrent.locks.ReentrantLock.lock com.example.Job.run",
    "WAITING | NOTIFICATION_WAIT | COND java.util.concurrent.LinkedBlockingQueue.take",
    "TIMED_WAITING | NOTIFICATION_WAIT | WAIT com.example.Job.run",
    "TIMED_WAITING | OTHER | java.lang.Thread.sleep* com.example.Job.run",
  })
  void aSleepingThreadWaitsForWhatItsInnermostFrameSays(
      Thread.State state, WaitClass expected, String frames) {
    assertEquals(expected, StackClassifier.classify(state, stack(frames), false, false));
  }

  @org.junit.jupiter.api.Test
  void sleepOnADiskWithoutACallIsAPageFault() {
    assertEquals(WaitClass.PAGE_FAULT, StackClassifier.classify(
        Thread.State.RUNNABLE, stack("com.example.Job.compute"), true, false));
  }

  @org.junit.jupiter.api.Test
  void nativeCodeWaitsForAPauseOnlyWhereThereWasOne() {
    StackTraceElement[] stack = stack("org.rocksdb.RocksDB.write0*");
    assertEquals(WaitClass.NATIVE,
        StackClassifier.classify(Thread.State.RUNNABLE, stack, false, false));
    assertEquals(WaitClass.GC_SAFEPOINT,
        StackClassifier.classify(Thread.State.RUNNABLE, stack, false, true));
  }

  @org.junit.jupiter.api.Test
  void partsOfAParquetFileAreReadByOtherThreads() {
    StackTraceElement[] parts = stack(PARK + "java.util.concurrent.CompletableFuture.get"
        + " org.apache.parquet.hadoop.util.wrapped.io.FutureIO.awaitFuture"
        + " org.apache.parquet.hadoop.ParquetFileReader.readVectored");
    assertEquals(WaitClass.IO_READ,
        StackClassifier.classify(Thread.State.WAITING, parts, false, false));
    assertTrue(StackClassifier.awaitsParts(parts));
    assertFalse(StackClassifier.awaitsParts(stack("org.apache.parquet.hadoop.Other.read")));
  }

  @org.junit.jupiter.api.Test
  void compressionInNativeCodeIsNotIo() {
    assertFalse(StackClassifier.doesIo(stack("org.xerial.snappy.SnappyNative.rawCompress*")));
  }

  private static StackTraceElement[] stack(String frames) {
    List<StackTraceElement> stack = new ArrayList<>();
    String full = frames.replace("~", S).replace("WAIT ", "java.lang.Object.wait* ")
        .replace("COND ", CONDITION).replace("PARK ", PARK);
    for (String frame : full.trim().split("\\s+")) {
      boolean isNative = frame.endsWith("*");
      String name = isNative ? frame.substring(0, frame.length() - 1) : frame;
      int dot = name.lastIndexOf('.');
      stack.add(new StackTraceElement(
          name.substring(0, dot), name.substring(dot + 1), null, isNative ? -2 : 1));
    }
    return stack.toArray(new StackTraceElement[0]);
  }
}
