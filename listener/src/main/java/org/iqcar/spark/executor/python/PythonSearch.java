package org.iqcar.spark.executor.python;

import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.net.Socket;
import java.util.ArrayList;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ThreadPoolExecutor;
import org.apache.spark.SparkEnv;
import org.apache.spark.TaskContext;
import org.iqcar.spark.safety.Safely;
import org.iqcar.spark.safety.SparkInternals;

/**
 * Finds the worker processes of a Python task, on a thread of its own.
 *
 * <p>Spark registers a completion callback that closes over the task's worker; the factory that
 * made the worker knows its process id. Both are private, so this class reads fields by name; with
 * a Spark that names them otherwise the wait is not split. The search takes the factory's lock,
 * which Spark holds while it starts a daemon, so the sampler must not wait for it.
 */
final class PythonSearch {
  private static final String WORKER = "org.apache.spark.api.python.PythonWorker";
  /** Closures to look into: a callback may wrap the one that holds the worker. */
  private static final int DEPTH = 2;
  private static final ThreadPoolExecutor SEARCHER = Safely.clock("iqcar-python-search", 1);

  private PythonSearch() {}

  /** Searches in the background and gives the task the process ids. */
  static void start(PythonTask task, TaskContext context) {
    SEARCHER.execute(() -> {
      List<Long> pids = new ArrayList<>();
      Safely.run("looking for Python workers", () -> {
        for (Object worker : workers(context)) {
          Long pid = pid(worker);
          if (pid != null) {
            pids.add(pid);
          }
        }
      });
      task.found(pids);
    });
  }

  /** The workers (sockets, or Spark's wrapper of one) that completion callbacks will release. */
  static Set<Object> workers(TaskContext context) throws ReflectiveOperationException {
    Set<Object> workers = Collections.newSetFromMap(new IdentityHashMap<>());
    Object callbacks = SparkInternals.get(context, "onCompleteCallbacks");
    if (callbacks instanceof List) {
      for (Object callback : ((List<?>) callbacks).toArray()) {
        collect(callback, DEPTH, workers);
      }
    }
    return workers;
  }

  private static void collect(Object holder, int depth, Set<Object> workers)
      throws ReflectiveOperationException {
    for (Field field : holder.getClass().getDeclaredFields()) {
      if (field.getType().isPrimitive() || Modifier.isStatic(field.getModifiers())) {
        continue;
      }
      field.setAccessible(true);
      Object value = field.get(holder);
      if (value instanceof Socket || value != null && value.getClass().getName().equals(WORKER)) {
        workers.add(value);
      } else if (depth > 1 && value instanceof scala.Function1) {
        collect(value, depth - 1, workers);
      }
    }
  }

  private static Long pid(Object worker) throws ReflectiveOperationException {
    SparkEnv env = SparkEnv.get();
    List<Object> factories = new ArrayList<>();
    Object known = SparkInternals.get(env, "pythonWorkers");
    synchronized (env) {
      Object values = SparkInternals.call(known, "valuesIterator");
      for (scala.collection.Iterator<?> i = (scala.collection.Iterator<?>) values; i.hasNext();) {
        factories.add(i.next());
      }
    }
    for (Object factory : factories) {
      synchronized (factory) {
        for (String field : new String[] {"daemonWorkers", "simpleWorkers"}) {
          Object process = SparkInternals.mapGet(SparkInternals.get(factory, field), worker);
          if (process instanceof Number) {
            return ((Number) process).longValue();
          }
          if (process != null) {
            return pidOf(process);
          }
        }
      }
    }
    return null;
  }

  /** The id of a Process, a ProcessHandle (Spark 4.0) or Spark's wrapper of one (4.3). */
  private static Long pidOf(Object process) throws ReflectiveOperationException {
    if (process instanceof Process) {
      return (Long) Class.forName("java.lang.Process").getMethod("pid").invoke(process);
    }
    Class<?> handle = Class.forName("java.lang.ProcessHandle");
    if (handle.isInstance(process)) {
      return (Long) handle.getMethod("pid").invoke(process);
    }
    return ((Number) SparkInternals.call(process, "pid")).longValue();
  }
}
