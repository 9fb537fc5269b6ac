package org.iqcar.spark.threads;

import java.io.Closeable;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.Iterator;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.iqcar.spark.safety.Failures;

/**
 * What the kernel knows about one thread. The task's thread and the sampler each have their own
 * open files, so that neither ever waits for the other.
 */
public final class KernelThread implements Closeable {
  private static final Map<Thread, KernelThread> OPEN = new ConcurrentHashMap<>();
  /** A thread's stat begins "tid (15 letters) S": this is enough for its state. */
  private static final int STAT_BYTES = 64;

  /** The thread's id, as the kernel counts. */
  public final String tid;
  private final ProcFile ownSchedstat;
  private final ProcFile ownIo;
  private final ProcFile seenStat;
  private final ProcFile seenSchedstat;
  private final long[] ownTimes = new long[2];
  private final long[] seenTimes = new long[2];
  /** Whether its thread runs a task now; set by that thread. */
  public volatile boolean busy;

  private KernelThread(String folder) throws IOException {
    tid = folder.substring(folder.lastIndexOf('/') + 1);
    seenStat = new ProcFile(folder + "/stat", STAT_BYTES);
    seenSchedstat = new ProcFile(folder + "/schedstat", 96);
    ownSchedstat = new ProcFile(folder + "/schedstat", 96);
    ProcFile io = null;
    try {
      io = new ProcFile(folder + "/io", 256);
    } catch (IOException noAccounting) {
      // Some containers hide io; the rest is still worth having.
    }
    ownIo = io;
  }

  /** The calling thread's, or null where the kernel does not offer it. */
  public static KernelThread current(String proc) {
    Thread thread = Thread.currentThread();
    KernelThread known = OPEN.get(thread);
    if (known == null) {
      closeWhere(false);
      try {
        Path self = Files.readSymbolicLink(Paths.get(proc, "thread-self"));
        known = new KernelThread(Paths.get(proc).resolve(self).toString());
        OPEN.put(thread, known);
      } catch (IOException | RuntimeException notLinux) {
        return null;
      }
    }
    return known;
  }

  /** Closes the files of all threads that run no task: the executor has ended. */
  public static void closeIdle() {
    closeWhere(true);
  }

  /** Closes the files of threads that have ended, and perhaps of those that are idle. */
  private static void closeWhere(boolean idle) {
    for (Iterator<Map.Entry<Thread, KernelThread>> i = OPEN.entrySet().iterator(); i.hasNext();) {
      Map.Entry<Thread, KernelThread> entry = i.next();
      if (!entry.getKey().isAlive() || idle && !entry.getValue().busy) {
        i.remove();
        entry.getValue().close();
      }
    }
  }

  /** Total wait on the run queue; for the thread itself. */
  public long ownRunQueueNanos() throws IOException {
    ownSchedstat.numbers(ownTimes);
    return ownTimes[1];
  }

  /** rchar, wchar, syscr, syscw, read_bytes, write_bytes; null where the kernel hides them. */
  public long[] ownIo() throws IOException {
    if (ownIo == null) {
      return null;
    }
    long[] io = new long[6];
    ownIo.numbers(io);
    return io;
  }

  /** State letter; for the sampler. */
  public char seenState() throws IOException {
    return seenStat.state();
  }

  /**
   * Reads the thread's times; for the sampler. The wait on the run queue is added only when the
   * thread gets to run, and the processor time of a running thread may be one tick old.
   */
  public void lookAtTimes() throws IOException {
    seenSchedstat.numbers(seenTimes);
  }

  /** Total processor time at the last look; for the sampler. */
  public long seenCpuNanos() {
    return seenTimes[0];
  }

  /** Total wait on the run queue at the last look; for the sampler. */
  public long seenRunQueueNanos() {
    return seenTimes[1];
  }

  @Override
  public void close() {
    for (ProcFile file : new ProcFile[] {ownSchedstat, ownIo, seenStat, seenSchedstat}) {
      try {
        if (file != null) {
          file.close();
        }
      } catch (IOException e) {
        Failures.note("closing a kernel file", e);
      }
    }
  }
}
