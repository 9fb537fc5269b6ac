package org.iqcar.spark;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.File;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.util.ArrayDeque;
import java.util.Collection;
import java.util.Collections;
import java.util.Deque;
import java.util.IdentityHashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.management.ObjectName;
import org.apache.spark.SparkContext;
import org.iqcar.spark.safety.SparkInternals;

/** Reads what a JVM holds, and what of it the plugin holds, after a garbage collection. */
public final class PluginLife {
  private static final String OWN = "org.iqcar.spark.";
  private static final Pattern ROW =
      Pattern.compile("\\s*\\d+:\\s+(\\d+)\\s+(\\d+)\\s+(org\\.iqcar\\.spark\\.[\\w.$]+).*");

  private PluginLife() {}

  /**
   * What is alive now, as JSON: {@code heap_bytes}, {@code threads}, {@code files}; the plugin's
   * {@code own_threads}, {@code kernel_files}, {@code objects} by class, and sizes of {@code maps}
   * by field.
   *
   * @param sc an application whose listeners hold maps; null for none
   */
  public static String read(SparkContext sc) throws Exception {
    Map<String, Object> found = new LinkedHashMap<>();
    found.put("objects", objects());
    Runtime runtime = Runtime.getRuntime();
    found.put("heap_bytes", runtime.totalMemory() - runtime.freeMemory());
    Set<Thread> threads = Thread.getAllStackTraces().keySet();
    found.put("threads", threads.size());
    found.put("own_threads", threads.stream().map(Thread::getName)
        .filter(name -> name.startsWith("iqcar")).sorted().toArray());
    String[] open = new File("/proc/self/fd").list();
    found.put("files", open == null ? -1 : open.length);
    found.put("kernel_files", kernelFiles());
    found.put("maps", sc == null ? Collections.emptyMap() : maps(sc));
    return new ObjectMapper().writeValueAsString(found);
  }

  private static int kernelFiles() {
    int count = 0;
    File[] open = new File("/proc/self/fd").listFiles();
    for (File file : open == null ? new File[0] : open) {
      try {
        String target = file.getCanonicalPath();
        count += target.startsWith("/proc/") && target.contains("/task/") ? 1 : 0;
      } catch (IOException closed) {
        // It was open while the folder was listed.
      }
    }
    return count;
  }

  /** Counts the plugin's live objects by class; the JVM collects garbage first. */
  private static Map<String, Integer> objects() throws Exception {
    String table = (String) ManagementFactory.getPlatformMBeanServer().invoke(
        new ObjectName("com.sun.management:type=DiagnosticCommand"), "gcClassHistogram",
        new Object[] {new String[0]}, new String[] {String[].class.getName()});
    Map<String, Integer> counts = new TreeMap<>();
    for (String line : table.split("\n")) {
      Matcher row = ROW.matcher(line);
      // The code of lambdas has a class, and so an object, each.
      if (row.matches() && !row.group(3).contains("Lambda")) {
        counts.put(row.group(3).substring(OWN.length()), Integer.parseInt(row.group(1)));
      }
    }
    return counts;
  }

  /** Sizes of what the plugin's listeners hold, directly or in other objects of the plugin. */
  private static Map<String, Integer> maps(SparkContext sc) throws Exception {
    Map<String, Integer> sizes = new TreeMap<>();
    Set<Object> seen = Collections.newSetFromMap(new IdentityHashMap<>());
    Deque<Object> next = new ArrayDeque<>();
    Object listeners = SparkInternals.call(sc.listenerBus(), "listeners");
    next.addAll((Collection<?>) listeners);
    while (!next.isEmpty()) {
      Object holder = next.pop();
      if (holder.getClass().getName().startsWith(OWN) && seen.add(holder)) {
        addFields(holder, sizes, next);
      }
    }
    return sizes;
  }

  private static void addFields(Object holder, Map<String, Integer> sizes, Deque<Object> next)
      throws IllegalAccessException {
    for (Field field : holder.getClass().getDeclaredFields()) {
      field.setAccessible(true);
      Object held = Modifier.isStatic(field.getModifiers()) ? null : field.get(holder);
      String name = holder.getClass().getSimpleName() + "." + field.getName();
      if (held instanceof Map || held instanceof Collection) {
        int size = held instanceof Map ? ((Map<?, ?>) held).size() : ((Collection<?>) held).size();
        sizes.merge(name, size, Integer::sum);
      } else if (held != null) {
        next.push(held);
      }
    }
  }
}
