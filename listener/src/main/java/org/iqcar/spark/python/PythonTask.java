package org.iqcar.spark.python;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.TaskContext;
import org.iqcar.spark.host.HostWatch;
import org.iqcar.spark.safety.Failures;
import org.iqcar.spark.threads.WaitClass;

/** The Python workers of one task. Used by the sampler only, but for {@link #found}. */
public final class PythonTask {
  public static final WaitClass[] CLASSES = {
    WaitClass.PYTHON_CPU, WaitClass.PYTHON_RUN_QUEUE, WaitClass.PYTHON_IO,
    WaitClass.PYTHON_OTHER, WaitClass.PYTHON_WORKER};
  /** Looks at the task before its workers are searched for again: a later UDF adds workers. */
  private static final int LOOKS_PER_SEARCH = 50;

  private final String proc;
  private List<WorkerProcess> workers = new ArrayList<>();
  private int looks;
  private boolean searching;
  private boolean closed;

  public PythonTask(String proc) {
    this.proc = proc;
  }

  /** Reads what the workers did since the last look. */
  public synchronized void look(long now) {
    for (int i = workers.size() - 1; i >= 0; i--) {
      try {
        workers.get(i).look(now);
      } catch (IOException ended) {
        close(workers.remove(i));
      }
    }
  }

  /** How the wait since the last look divides over {@link #CLASSES}; sums to 1. */
  public synchronized double[] split(long now) {
    double[] parts = new double[CLASSES.length];
    if (workers.isEmpty()) {
      parts[4] = 1;
      return parts;
    }
    for (WorkerProcess worker : workers) {
      parts[0] += worker.cpu;
      parts[1] += worker.runQueue;
      parts[2] += worker.io;
    }
    double busy = parts[0] + parts[1] + parts[2];
    if (busy > 1) {
      parts[0] /= busy;
      parts[1] /= busy;
      parts[2] /= busy;
    }
    parts[3] = Math.max(0, 1 - parts[0] - parts[1] - parts[2]);
    return parts;
  }

  /** Has the workers searched for, in another thread, if that is due. */
  public synchronized void search(TaskContext context) {
    boolean due = workers.isEmpty() || looks % LOOKS_PER_SEARCH == 0;
    looks++;
    if (due && !searching && !closed) {
      searching = true;
      PythonSearch.start(this, context);
    }
  }

  synchronized void found(List<Long> pids) {
    searching = false;
    for (long pid : pids) {
      // A search may end after the task: files opened then would stay open.
      boolean known = closed;
      for (WorkerProcess worker : workers) {
        known |= worker.pid == pid;
      }
      if (!known) {
        try {
          workers.add(new WorkerProcess(proc, pid));
          HostWatch.python(pid);
        } catch (IOException ended) {
          // The worker is gone already; the next search finds its successor.
        }
      }
    }
  }

  public synchronized void close() {
    for (WorkerProcess worker : workers) {
      close(worker);
    }
    workers = new ArrayList<>();
    closed = true;
  }

  private static void close(WorkerProcess worker) {
    try {
      worker.close();
    } catch (IOException e) {
      Failures.note("closing a worker's kernel files", e);
    }
  }
}
