package org.iqcar.spark.executor.threads;

import java.io.Closeable;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * For how long the kernel has stopped this process because its control group had used up its
 * processor quota, as a container's does. Groups of version 1 and 2; of the own group and all that
 * contain it, those with a quota when it is opened.
 */
public final class CpuLimit implements Closeable {
  private static final int STAT_BYTES = 1_024;
  /** Groups inside one another that are looked at. */
  private static final int MOST_GROUPS = 16;
  private static final long NANOS_PER_MICRO = 1_000;

  private final List<ProcFile> stats = new ArrayList<>();
  private final boolean first;
  /** Processors that the process may run on; the JVM itself counts those of its quota. */
  public final int processors;

  /** Opens the groups from the own one up to the mount. */
  private CpuLimit(Path mount, Path own, boolean first, int processors) throws IOException {
    this.first = first;
    this.processors = processors;
    Path group = own;
    try {
      for (int i = 0; i < MOST_GROUPS && group.startsWith(mount); i++) {
        if (isLimited(group)) {
          stats.add(new ProcFile(group.resolve("cpu.stat").toString(), STAT_BYTES));
        }
        group = group.getParent();
      }
      stoppedNanos();
    } catch (IOException | RuntimeException damaged) {
      close();
      throw damaged;
    }
  }

  /**
   * The limits of this process; null where the kernel does not tell.
   *
   * @param proc where the kernel's process files are, such as /proc
   */
  public static CpuLimit open(String proc) {
    try {
      List<String> mounts = lines(Paths.get(proc, "self", "mountinfo"));
      List<String> groups = lines(Paths.get(proc, "self", "cgroup"));
      int processors = processors(lines(Paths.get(proc, "self", "status")));
      CpuLimit limit = open(mounts, groups, true, processors);
      return limit == null ? open(mounts, groups, false, processors) : limit;
    } catch (IOException | RuntimeException untold) {
      return null;
    }
  }

  private static CpuLimit open(
      List<String> mounts, List<String> groups, boolean first, int processors)
      throws IOException {
    String path = null;
    for (String line : groups) {
      String[] parts = line.split(":", 3);
      if (first ? has(parts[1], "cpu") : parts[1].isEmpty()) {
        path = parts[2];
      }
    }
    for (String line : mounts) {
      // id parent device root mount options … - type source options
      String[] parts = line.split(" ");
      int type = Arrays.asList(parts).indexOf("-") + 1;
      boolean fits = parts[type].equals(first ? "cgroup" : "cgroup2")
          && (!first || has(parts[type + 2], "cpu"));
      if (fits && path != null) {
        Path mount = Paths.get(parts[4]);
        return new CpuLimit(mount, own(mount, parts[3], path), first, processors);
      }
    }
    return null;
  }

  /** Counts the bits of a mask such as ff,ffffffff. */
  private static int processors(List<String> status) throws IOException {
    for (String line : status) {
      if (line.startsWith("Cpus_allowed:")) {
        return line.substring(line.indexOf(':')).chars()
            .map(letter -> Integer.bitCount(Math.max(0, Character.digit(letter, 16)))).sum();
      }
    }
    throw new IOException("no mask of processors");
  }

  /** The folder of the own group: a container sees it as the mount itself, whatever its path. */
  private static Path own(Path mount, String root, String path) {
    String below = path.startsWith(root) ? path.substring(root.length()) : "";
    Path own = mount.resolve(below.replaceFirst("^/+", "")).normalize();
    return own.startsWith(mount) && Files.isDirectory(own) ? own : mount;
  }

  private boolean isLimited(Path group) throws IOException {
    Path quota = group.resolve(first ? "cpu.cfs_quota_us" : "cpu.max");
    // The root of version 2 has no such file.
    String text = Files.exists(quota) ? lines(quota).get(0) : "max";
    return !text.startsWith("-") && !text.startsWith("max");
  }

  private static boolean has(String list, String word) {
    return Arrays.asList(list.split(",")).contains(word);
  }

  private static List<String> lines(Path file) throws IOException {
    return Files.readAllLines(file, StandardCharsets.ISO_8859_1);
  }

  /**
   * Total time for which processors that had something to run for these groups were stopped, in
   * ns: the sum over processors. 0 without a quota.
   */
  public synchronized long stoppedNanos() throws IOException {
    long sum = 0;
    for (ProcFile stat : stats) {
      sum += first ? stat.number("throttled_time")
          : NANOS_PER_MICRO * stat.number("throttled_usec");
    }
    return sum;
  }

  @Override
  public synchronized void close() {
    stats.forEach(ProcFile::close);
  }
}
