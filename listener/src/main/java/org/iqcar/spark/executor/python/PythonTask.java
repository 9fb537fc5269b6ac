package org.iqcar.spark.executor.python;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.TaskContext;
import org.iqcar.spark.events.WaitClass;
import org.iqcar.spark.executor.host.WatchOrders;

/**
 * Splits a task's wait for Python by what its worker processes did meanwhile. Used by the sampler;
 * {@link #found} and {@link #close} are called by other threads.
 */
public final class PythonTask {
  /** Classes into which the wait is split; the last one is for a task without known workers. */
  public static final WaitClass[] CLASSES = {
    WaitClass.PYTHON_CPU, WaitClass.PYTHON_RUN_QUEUE, WaitClass.PYTHON_IO,
    WaitClass.PAGE_FAULT, WaitClass.PYTHON_OTHER, WaitClass.PYTHON_WORKER};
  /** Places of the last two; those before are what a worker did. */
  private static final int REST = 4;
  private static final int UNKNOWN = 5;
  /** Looks at the task between two searches for its workers: a later UDF adds workers. */
  private static final int LOOKS_PER_SEARCH = 50;
  /** Most looks between two searches, of a task none of whose workers is found. */
  private static final int MOST_LOOKS_PER_SEARCH = 1_024;

  private final String proc;
  private List<WorkerProcess> workers = new ArrayList<>();
  private int looks;
  private int nextSearch;
  private int pause = 1;
  private boolean searching;
  private boolean closed;

  /**
   * A task whose workers are not known yet.
   *
   * @param proc where the kernel's process files are, such as /proc
   */
  public PythonTask(String proc) {
    this.proc = proc;
  }

  /** Reads what the workers did since the last look; now is of {@link System#nanoTime}. */
  public synchronized void look(long now) {
    for (int i = workers.size() - 1; i >= 0; i--) {
      try {
        workers.get(i).look(now);
      } catch (IOException ended) {
        workers.remove(i).close();
        nextSearch = looks;
      }
    }
  }

  /** Shares of {@link #CLASSES} in the wait since the last look; they sum to 1. */
  public synchronized double[] split(long now) {
    double[] parts = new double[CLASSES.length];
    if (workers.isEmpty()) {
      parts[UNKNOWN] = 1;
      return parts;
    }
    for (WorkerProcess worker : workers) {
      parts[0] += worker.cpu;
      parts[1] += worker.runQueue;
      parts[2] += worker.io;
      parts[3] += worker.fault;
    }
    double busy = parts[0] + parts[1] + parts[2] + parts[3];
    for (int i = 0; i < REST && busy > 1; i++) {
      parts[i] /= busy;
    }
    parts[REST] = Math.max(0, 1 - busy);
    return parts;
  }

  /** Starts a search for the workers in another thread, if one is due. */
  public void search(TaskContext context) {
    if (isDue()) {
      PythonSearch.start(this, context);
    }
  }

  /** Whether to search at this look; then {@link #found} must follow. */
  synchronized boolean isDue() {
    boolean due = looks++ >= nextSearch && !searching && !closed;
    searching |= due;
    return due;
  }

  /** Takes the process ids that a search found. */
  synchronized void found(List<Long> pids) {
    searching = false;
    for (long pid : pids) {
      // A search may end after the task: files opened then would never be closed.
      boolean known = closed;
      for (WorkerProcess worker : workers) {
        known |= worker.pid == pid;
      }
      if (!known) {
        try {
          workers.add(new WorkerProcess(proc, pid));
          WatchOrders.python(pid);
        } catch (IOException ended) {
          // The worker has ended; the next search finds its successor.
        }
      }
    }
    // A search takes locks that tasks need: each one in vain makes the pause longer.
    pause = workers.isEmpty() ? Math.min(2 * pause, MOST_LOOKS_PER_SEARCH) : 1;
    nextSearch = looks + (workers.isEmpty() ? pause : LOOKS_PER_SEARCH);
  }

  /** Closes the workers' files; called when the task ends. */
  public synchronized void close() {
    workers.forEach(WorkerProcess::close);
    workers = new ArrayList<>();
    closed = true;
  }
}
