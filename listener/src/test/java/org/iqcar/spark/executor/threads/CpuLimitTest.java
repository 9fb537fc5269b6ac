package org.iqcar.spark.executor.threads;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class CpuLimitTest {
  private static final String V1_MOUNT =
      "32 31 0:29 %s %s rw,relatime shared:7 master:2 - cgroup cgroup rw,cpuacct,cpu\n";
  private static final String V2_MOUNT = "41 31 0:38 %s %s rw,relatime - cgroup2 cgroup2 rw\n";
  private static final String V1_GROUPS = "9:name=systemd:/x\n2:cpuset:/y\n1:cpuacct,cpu:%s\n0::/z\n";
  private static final String V1_STAT =
      "nr_periods 9\nnr_throttled 4\nthrottled_time %d\nnr_bursts 0\nburst_time 77\n";
  private static final String V2_STAT = "usage_usec 5\nuser_usec 3\nsystem_usec 2\nnr_periods 9\n"
      + "nr_throttled 4\nthrottled_usec %d\nnr_bursts 0\nburst_usec 77\n";

  @TempDir Path folder;

  private void write(String path, String text) throws IOException {
    Path file = folder.resolve(path);
    Files.createDirectories(file.getParent());
    Files.write(file, text.getBytes(StandardCharsets.US_ASCII));
  }

  private void proc(String mount, String root, String groups) throws IOException {
    write("self/mountinfo", "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n"
        + String.format(mount, root, folder.resolve("cpu")));
    write("self/cgroup", groups);
    write("self/status", "Name:\tcpu\nCpus_allowed:\t3,0000000f\nCpus_allowed_list:\t0-3,32-33\n");
  }

  private void v1(String group, String quota, String stat) throws IOException {
    write("cpu" + group + "/cpu.cfs_quota_us", quota + "\n");
    write("cpu" + group + "/cpu.stat", stat);
  }

  private void v2(String group, String quota, String stat) throws IOException {
    write("cpu" + group + "/cpu.max", quota + "\n");
    write("cpu" + group + "/cpu.stat", stat);
  }

  private long stopped() throws IOException {
    try (CpuLimit limit = CpuLimit.open(folder.toString())) {
      assertEquals(6, limit.processors);
      return limit.stoppedNanos();
    }
  }

  @Test
  void ofVersionOneTheGroupsWithQuotaUpToTheMountCount() throws IOException {
    proc(V1_MOUNT, "/", String.format(V1_GROUPS, "/yarn/c1"));
    v1("/yarn/c1", "150000", String.format(V1_STAT, 5_000_000_000_000L));
    v1("/yarn", "400000", String.format(V1_STAT, 30));
    v1("", "-1", String.format(V1_STAT, 1_000));
    v1("/other", "100000", String.format(V1_STAT, 100));
    assertEquals(5_000_000_000_030L, stopped());
    try (CpuLimit limit = CpuLimit.open(folder.toString())) {
      v1("/yarn/c1", "150000", String.format(V1_STAT, 5_000_000_000_007L));
      assertEquals(5_000_000_000_037L, limit.stoppedNanos());
      v1("/yarn/c1", "150000", "");
      assertThrows(IOException.class, limit::stoppedNanos);
    }
  }

  @Test
  void ofVersionTwoMicrosecondsAreRead() throws IOException {
    proc(V2_MOUNT, "/", "0::/kubepods/pod1\n");
    v2("/kubepods/pod1", "150000 100000", String.format(V2_STAT, 7));
    v2("/kubepods", "max 100000", String.format(V2_STAT, 1_000));
    write("cpu/cpu.stat", "usage_usec 5\n");
    assertEquals(7_000, stopped());
  }

  @ParameterizedTest
  @CsvSource({"/docker/a1,/docker/a1", "/docker/a1,/", "/,/../../docker/a1", "/,/gone"})
  void inContainersTheMountIsTheOwnGroup(String root, String path) throws IOException {
    proc(V1_MOUNT, root, String.format(V1_GROUPS, path));
    v1("", "150000", String.format(V1_STAT, 12));
    assertEquals(12, stopped());
    proc(V2_MOUNT, root, "0::" + path + "\n");
    v2("", "150000 100000", String.format(V2_STAT, 12));
    assertEquals(12_000, stopped());
  }

  @Test
  void withoutQuotaNothingStops() throws IOException {
    proc(V1_MOUNT, "/", String.format(V1_GROUPS, "/a"));
    v1("/a", "-1", String.format(V1_STAT, 9));
    assertEquals(0, stopped());
    proc(V2_MOUNT, "/", "0::/a\n");
    v2("/a", "max 100000", String.format(V2_STAT, 9));
    assertEquals(0, stopped());
  }

  @Test
  void withoutTheKernelsFilesNothingIsKnown() throws IOException {
    assertNull(CpuLimit.open(folder.toString()));
    write("self/mountinfo", "");
    assertNull(CpuLimit.open(folder.toString()));
    write("self/cgroup", "1:cpu:/a\n0::/a\n");
    assertNull(CpuLimit.open(folder.toString()));
    proc(V1_MOUNT, "/", String.format(V1_GROUPS, "/a"));
    v1("/a", "-1", "");
    write("self/status", "Name:\tcpu\n");
    assertNull(CpuLimit.open(folder.toString()));
    assertNotNull(CpuLimit.open("/proc"));
  }

  @ParameterizedTest
  @ValueSource(strings = {"", "throttled_time\n", "throttled_time x\n", "nr_throttled_time 7\n"})
  void damagedCountsAreNotKnown(String stat) throws IOException {
    proc(V1_MOUNT, "/", String.format(V1_GROUPS, "/a"));
    v1("/a", "150000", stat);
    assertNull(CpuLimit.open(folder.toString()));
  }

  @ParameterizedTest
  @ValueSource(strings = {"\n", "1\n", "a b c\n", "1 2 3 / /x rw - cgroup\n", "- - - - -\n"})
  void damagedMountsAreNotKnown(String mounts) throws IOException {
    proc(V1_MOUNT, "/", "");
    write("self/mountinfo", mounts);
    write("self/cgroup", "1:cpu:/a\n");
    assertNull(CpuLimit.open(folder.toString()));
    write("self/cgroup", "1\n:\n");
    assertNull(CpuLimit.open(folder.toString()));
  }
}
