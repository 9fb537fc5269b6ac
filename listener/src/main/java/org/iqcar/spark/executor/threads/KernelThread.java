package org.iqcar.spark.executor.threads;

import java.io.Closeable;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/**
 * Reads what the kernel counts for one thread. The thread itself and the sampler have open files
 * of their own, so neither waits for the other.
 */
public final class KernelThread implements Closeable {
  private static final Map<Thread, KernelThread> OPEN = new ConcurrentHashMap<>();
  /** A thread's stat file begins "tid (15 letters) S": enough bytes for its state. */
  private static final int STAT_BYTES = 64;
  /** Bytes of the whole file, and places of two of its numbers after the state letter. */
  private static final int WHOLE_STAT_BYTES = 512;
  private static final int MAJOR_FAULTS = 8;
  private static final int DISK_TICKS = 38;
  /** 10 ms: Linux counts in ticks of USER_HZ = 100 on every architecture in use. */
  private static final long TICK_MS = 10;

  /** The kernel's id of the thread. */
  public final String tid;
  private final ProcFile ownSchedstat;
  private final ProcFile ownIo;
  private final ProcFile ownStat;
  /** Null where the kernel hides the file. */
  private final ProcFile seenCall;
  private final ProcFile seenStat;
  private final ProcFile seenSchedstat;
  private final long[] ownTimes = new long[2];
  private final long[] seenTimes = new long[2];
  /** Null where the kernel counts no waits; then there is no schedstat either. */
  private final RunQueueWaits runQueue;
  private long seenRunQueue;
  /** Whether the thread runs a task now, and needs its files; the thread ends that. */
  public volatile boolean busy;

  private KernelThread(String folder) throws IOException {
    tid = folder.substring(folder.lastIndexOf('/') + 1);
    seenStat = new ProcFile(folder + "/stat", STAT_BYTES);
    ProcFile own = null;
    ProcFile seen = null;
    RunQueueWaits waits = null;
    try {
      own = new ProcFile(folder + "/schedstat", 96);
      seen = new ProcFile(folder + "/schedstat", 96);
      long now = System.nanoTime();
      own.numbers(ownTimes);
      waits = new RunQueueWaits(ownTimes[1], now);
    } catch (IOException | RuntimeException noTimes) {
      // Some kernels lack this file; the state is still useful.
      ProcFile.closeAll(own, seen);
      own = null;
      seen = null;
    }
    ownSchedstat = own;
    seenSchedstat = seen;
    runQueue = waits;
    // Some containers hide these; the others are still useful.
    ownIo = ProcFile.orNull(folder + "/io", 256);
    ownStat = ProcFile.orNull(folder + "/stat", WHOLE_STAT_BYTES);
    seenCall = ProcFile.orNull(folder + "/syscall", 16);
  }

  /**
   * The calling thread, which is {@link #busy} from now on, or null where there are no such files.
   *
   * @param proc where the kernel's process files are, such as /proc
   */
  public static KernelThread begin(String proc) {
    KernelThread known = known();
    if (known != null) {
      return known;
    }
    closeWhere(false);
    try {
      // Files may open slowly: no lock is held. Nobody else opens those of this thread.
      Path self = Files.readSymbolicLink(Paths.get(proc, "thread-self"));
      KernelThread made = new KernelThread(Paths.get(proc).resolve(self).toString());
      made.busy = true;
      OPEN.put(Thread.currentThread(), made);
      return made;
    } catch (IOException | RuntimeException notLinux) {
      return null;
    }
  }

  /** The calling thread, busy from now on, where its files are open; else null. */
  private static synchronized KernelThread known() {
    KernelThread known = OPEN.get(Thread.currentThread());
    if (known != null) {
      known.busy = true;
    }
    return known;
  }

  /** Closes the files of all threads that run no task; called when the executor has ended. */
  public static void closeIdle() {
    closeWhere(true);
  }

  /** Closes the files of threads that have ended and, if asked, of those that run no task. */
  private static void closeWhere(boolean idle) {
    List<KernelThread> unused = new ArrayList<>();
    synchronized (KernelThread.class) {
      OPEN.entrySet().removeIf(one -> (!one.getKey().isAlive() || idle && !one.getValue().busy)
          && unused.add(one.getValue()));
    }
    unused.forEach(KernelThread::close);
  }

  /** Whether the kernel counts the thread's times: else only its state and its IO are known. */
  public boolean isTimed() {
    return runQueue != null;
  }

  /** Total wait on the run queue, in ns, where it is timed; called by the thread itself. */
  public long ownRunQueueNanos() throws IOException {
    long before = System.nanoTime();
    ownSchedstat.numbers(ownTimes);
    return runQueue.total(ownTimes[1], false, before, System.nanoTime());
  }

  /**
   * rchar, wchar (bytes), syscr, syscw (calls), read_bytes, write_bytes (bytes), or null where the
   * kernel hides them; called by the thread itself.
   */
  public long[] ownIo() throws IOException {
    if (ownIo == null) {
      return null;
    }
    long[] io = new long[6];
    ownIo.numbers(io);
    return io;
  }

  /**
   * Page faults that read from a disk or swap, and ms in which the kernel counted that the thread
   * waited for devices (0 without delay accounting), or null where it does not tell; called by the
   * thread itself.
   */
  public long[] ownFaults() {
    long[] all = new long[DISK_TICKS + 1];
    try {
      if (ownStat == null) {
        return null;
      }
      ownStat.stateAndNumbers(all);
    } catch (IOException fewer) {
      return null;
    }
    return new long[] {all[MAJOR_FAULTS], TICK_MS * all[DISK_TICKS]};
  }

  /**
   * Whether the kernel reads a page for the thread, which was seen in state D. False where the
   * kernel does not tell; called by the sampler.
   */
  public boolean seenFault() {
    try {
      return seenCall != null && seenCall.isOutsideCall();
    } catch (IOException untold) {
      return false;
    }
  }

  /** The state letter; called by the sampler. */
  public char seenState() throws IOException {
    return seenStat.state();
  }

  /**
   * Reads the state letter and, where it is timed, the thread's times; called by the sampler. The
   * kernel adds a wait on the run queue only when the thread gets to run, and a running thread's
   * processor time may be one tick old.
   */
  public char look() throws IOException {
    long before = System.nanoTime();
    char state = seenStat.state();
    if (!isTimed()) {
      return state;
    }
    seenSchedstat.numbers(seenTimes);
    seenRunQueue = runQueue.total(seenTimes[1], state == 'R', before, System.nanoTime());
    return state;
  }

  /** Total processor time at the last {@link #look}, in ns; called by the sampler. */
  public long seenCpuNanos() {
    return seenTimes[0];
  }

  /** Total wait on the run queue at the last {@link #look}, in ns; called by the sampler. */
  public long seenRunQueueNanos() {
    return seenRunQueue;
  }

  @Override
  public void close() {
    ProcFile.closeAll(ownSchedstat, ownIo, ownStat, seenStat, seenSchedstat, seenCall);
  }
}
