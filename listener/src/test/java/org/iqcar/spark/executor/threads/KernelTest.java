package org.iqcar.spark.executor.threads;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class KernelTest {
  @TempDir Path folder;

  private ProcFile file(String text) throws IOException {
    Path path = folder.resolve("file");
    Files.write(path, text.getBytes(StandardCharsets.US_ASCII));
    return new ProcFile(path.toString(), 512);
  }

  @Test
  void theStateFollowsTheLastBracketOfTheName() throws IOException {
    long[] fields = new long[3];
    try (ProcFile stat = file("12 (a ) S (b) D 7 8 -1 9 10\n")) {
      assertEquals('D', stat.stateAndNumbers(fields));
    }
    assertArrayEquals(new long[] {7, 8, 1}, fields);
  }

  @Test
  void numbersAreReadWhateverTheirNames() throws IOException {
    long[] io = new long[3];
    try (ProcFile file = file("rchar: 12\nwchar: 0\nsyscr: 987654321012\n")) {
      file.numbers(io);
      file.numbers(io);
      assertThrows(IOException.class, () -> file.numbers(new long[4]));
    }
    assertArrayEquals(new long[] {12, 0, 987654321012L}, io);
  }

  @Test
  void withoutTheKernelsFilesThereIsNoKernelThread() {
    assertNull(KernelThread.begin(folder.resolve("absent").toString()));
  }

  @ParameterizedTest
  @ValueSource(strings = {"", "no numbers\n"})
  void aKernelWithoutSchedstatTellsTheStateFromOneFile(String schedstat) throws IOException {
    KernelThread.closeIdle();
    Path self = Files.createDirectories(folder.resolve("42/task/42"));
    Files.createSymbolicLink(folder.resolve("thread-self"), folder.relativize(self));
    Files.write(self.resolve("stat"), "42 (a) D 1\n".getBytes(StandardCharsets.US_ASCII));
    if (!schedstat.isEmpty()) {
      Files.write(self.resolve("schedstat"), schedstat.getBytes(StandardCharsets.US_ASCII));
    }
    long before = openFiles();
    for (int task = 0; task < 100; task++) {
      KernelThread thread = KernelThread.begin(folder.toString());
      assertFalse(thread.isTimed());
      assertEquals('D', thread.look());
      thread.busy = false;
    }
    assertEquals(before + 2, openFiles()); // one of the thread, one of the sampler
    KernelThread.closeIdle();
    assertEquals(before, openFiles());
  }

  @ParameterizedTest
  @CsvSource({"-1 0x7ff 0x55, true", "running, false", "0 0x3 0x7f, false", "'', false",
      ", false"})
  void sleepOutsideOfASystemCallIsAPageFault(String call, boolean fault) throws IOException {
    KernelThread.closeIdle();
    Path self = Files.createDirectories(folder.resolve("42/task/42"));
    Files.createSymbolicLink(folder.resolve("thread-self"), Paths.get("42/task/42"));
    StringBuilder stat = new StringBuilder("42 (a) D");
    for (int field = 4; field <= 52; field++) {
      stat.append(' ').append(field);
    }
    Files.write(self.resolve("stat"), stat.toString().getBytes(StandardCharsets.US_ASCII));
    if (call != null) {
      Files.write(self.resolve("syscall"), call.getBytes(StandardCharsets.US_ASCII));
    }
    KernelThread thread = KernelThread.begin(folder.toString());
    assertEquals(fault, thread.seenFault());
    // proc(5): majflt is field 12; field 42, delayacct_blkio_ticks, counts ticks of 10 ms.
    assertArrayEquals(new long[] {12, 420}, thread.ownFaults());
    Files.write(self.resolve("stat"), "42 (a) D 1 2".getBytes(StandardCharsets.US_ASCII));
    assertNull(thread.ownFaults());
    thread.busy = false;
    KernelThread.closeIdle();
    assertEquals(0, openFiles());
  }

  @Test
  void aThreadWhoseFilesOpenSlowlyHoldsNoOtherUp() throws Exception {
    Path slow = Files.createDirectories(folder.resolve("slow/1"));
    Files.createSymbolicLink(folder.resolve("slow/thread-self"), slow);
    Path pipe = slow.resolve("stat"); // a pipe opens when somebody writes to it
    assertEquals(0, new ProcessBuilder("mkfifo", pipe.toString()).start().waitFor());
    Path fast = Files.createDirectories(folder.resolve("fast/2"));
    Files.createSymbolicLink(folder.resolve("fast/thread-self"), fast);
    Files.write(fast.resolve("stat"), "2 (b) S 1\n".getBytes(StandardCharsets.US_ASCII));
    List<String> begun = Collections.synchronizedList(new ArrayList<>());
    Thread held = new Thread(() -> begun.add(KernelThread.begin(folder + "/slow").tid));
    held.start();
    while (held.getState() != Thread.State.RUNNABLE || !opens(held)) {
      Thread.sleep(10);
    }
    Thread other = new Thread(() -> begun.add(KernelThread.begin(folder + "/fast").tid));
    other.start();
    other.join(60_000);
    assertEquals(Arrays.asList("2"), begun);
    try (FileOutputStream writes = new FileOutputStream(pipe.toFile())) {
      writes.write("1 (a) S 1\n".getBytes(StandardCharsets.US_ASCII));
      other.join();
      held.join();
    }
    assertEquals(Arrays.asList("2", "1"), begun);
    KernelThread.closeIdle();
    assertEquals(0, openFiles());
  }

  private static boolean opens(Thread thread) {
    return Arrays.stream(thread.getStackTrace()).anyMatch(at -> at.getMethodName().equals("open0"));
  }

  private long openFiles() throws IOException {
    try (Stream<Path> files = Files.list(Paths.get("/proc/self/fd"))) {
      return files.filter(one -> {
        try {
          return Files.readSymbolicLink(one).startsWith(folder);
        } catch (IOException closed) {
          return false;
        }
      }).count();
    }
  }
}
