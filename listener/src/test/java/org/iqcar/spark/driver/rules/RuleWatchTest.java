package org.iqcar.spark.driver.rules;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.iqcar.spark.safety.SparkInternals;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class RuleWatchTest {
  @TempDir
  Path folder;
  private Path file;
  private final List<String> said = Collections.synchronizedList(new ArrayList<>());
  private final List<String> applied = new ArrayList<>();
  private volatile boolean ended;
  private RuleWatch watch;

  /** A real file, at which tests look otherwise. */
  private class Looked extends RuleFile {
    Looked() {
      super(file.toString(), null, Collections.singleton("default"));
    }
  }

  /** Notes what would act. */
  private final RuleWatch.Target target = new RuleWatch.Target() {
    @Override
    public void become(PoolRules next) {
      applied.add(next.pools.get("gold").describe());
    }

    @Override
    public boolean ended() {
      return ended;
    }
  };

  private static String weight(int weight) {
    return "{\"schema_version\":\"1\",\"pools\":[{\"name\":\"gold\",\"weight\":" + weight + "}]}";
  }

  private void write(String content) throws IOException {
    Path beside = folder.resolve("beside");
    Files.write(beside, content.getBytes(StandardCharsets.UTF_8));
    Files.move(beside, file, StandardCopyOption.ATOMIC_MOVE);
  }

  private void look(int times) {
    for (int i = 0; i < times; i++) {
      watch.look();
    }
  }

  @BeforeEach
  void startWithARule() throws IOException {
    file = folder.resolve("rules.json");
    write(weight(1));
    watch = watching(new Looked());
    look(1);
    assertEquals("accepted gold", said.remove(0));
    applied.clear();
  }

  private RuleWatch watching(RuleFile of) {
    return new RuleWatch(of, target, PoolRules.none(), null, news -> said.add(
        news.changes.isEmpty() ? news.outcome : news.outcome + " " + news.changes.get(0).name));
  }

  @Test
  void aChangeActsAtTheNextLookAndOnce() throws IOException {
    write(weight(2));
    look(1);
    assertEquals(Collections.singletonList("gold FIFO weight 2 minShare 0"), applied);
    look(10);
    assertEquals(Collections.singletonList("accepted gold"), said);
    assertEquals(1, applied.size());
  }

  @Test
  void aFileThatIsWrittenAgainAsItWasChangesNothing() throws IOException {
    write(weight(1));
    look(10);
    assertTrue(said.isEmpty() && applied.isEmpty());
  }

  @Test
  void aMalformedFileIsSaidOnceAndChangesNothing() throws IOException {
    write("{\"schema_version\":");
    look(1);
    assertTrue(said.isEmpty(), "somebody may be writing it");
    look(40);
    assertEquals(Collections.singletonList("refused"), said);
    assertTrue(applied.isEmpty());
    write("[]");
    look(2);
    assertEquals("[refused, refused]", said.toString());
  }

  @Test
  void aFileThatIsHalfWrittenWhenItIsLookedAtIsNotRefused() throws IOException {
    String whole = weight(7);
    for (int written = 1; written < whole.length(); written += 5) {
      Files.write(file, whole.substring(0, written).getBytes(StandardCharsets.UTF_8));
      look(1);
    }
    Files.write(file, whole.getBytes(StandardCharsets.UTF_8));
    look(2);
    assertEquals(Collections.singletonList("accepted gold"), said);
    assertEquals(Collections.singletonList("gold FIFO weight 7 minShare 0"), applied);
  }

  @Test
  void aFileThatChangesWhileItIsReadIsReadAgain() throws IOException {
    RuleFile moving = new Looked() {
      @Override
      byte[] readNow() throws IOException {
        byte[] before = super.readNow();
        if (new String(before, StandardCharsets.UTF_8).contains(":8}")) {
          write(weight(10));
        }
        return before;
      }
    };
    watch = watching(moving);
    write(weight(8));
    look(1);
    assertTrue(applied.isEmpty());
    look(1);
    assertEquals(Collections.singletonList("gold FIFO weight 10 minShare 0"), applied);
  }

  @Test
  void aChangeThatLeavesTimeAndSizeIsSeen() throws IOException {
    watch = watching(new Looked() {
      @Override
      String stamp() {
        return "the same second";
      }
    });
    look(1);
    write(weight(9));
    look(1);
    assertEquals("gold FIFO weight 9 minShare 0", applied.get(1));
  }

  @Test
  void aFileWhoseTimeIsUnknownIsReadAtEachLook() throws IOException {
    watch = watching(new Looked() {
      @Override
      String stamp() {
        return "";
      }
    });
    look(20);
    write(weight(9));
    look(1);
    assertEquals("gold FIFO weight 9 minShare 0", applied.get(1));
  }

  @Test
  void aFileThatIsRemovedIsSaidOnceAndItsReturnToo() throws IOException {
    Files.delete(file);
    look(1);
    assertTrue(said.isEmpty(), "somebody may be replacing it");
    look(10);
    assertEquals("[missing]", said.toString());
    write(weight(1));
    look(10);
    assertEquals("[missing, accepted]", said.toString());
    assertTrue(applied.isEmpty());
  }

  @Test
  void aFileThatCannotBeReadIsSaidOnceAndReadLater() throws IOException {
    int[] reads = {0};
    watch = watching(new Looked() {
      @Override
      byte[] readNow() throws IOException {
        if (reads[0]++ < 6) {
          throw new IOException("no route to host");
        }
        return super.readNow();
      }
    });
    look(5);
    assertEquals("[unreadable]", said.toString());
    look(10);
    assertEquals("[unreadable, accepted gold]", said.toString());
  }

  @Test
  void aFileThatAnybodyCanWriteIsSaidOnceAndNotReadUntilThatIsOver() throws IOException {
    Path beside = folder.resolve("open");
    Files.write(beside, weight(9).getBytes(StandardCharsets.UTF_8));
    Files.setPosixFilePermissions(beside, PosixFilePermissions.fromString("rw-rw-rw-"));
    Files.move(beside, file, StandardCopyOption.ATOMIC_MOVE);
    look(40);
    assertEquals("[unreadable]", said.toString());
    assertTrue(applied.isEmpty());
    Files.setPosixFilePermissions(file, PosixFilePermissions.fromString("rw-rw-r--"));
    look(1);
    assertEquals("[unreadable, accepted gold]", said.toString());
    Files.setPosixFilePermissions(file, PosixFilePermissions.fromString("rw-rw-rw-"));
    look(2);
    Files.setPosixFilePermissions(file, PosixFilePermissions.fromString("rw-rw-r--"));
    look(1);
    assertEquals("[unreadable, accepted gold, unreadable, accepted]", said.toString());
  }

  @Test
  void aFileSystemThatHangsHoldsUpOneThreadAndIsSaidOnce() throws Exception {
    CountDownLatch asked = new CountDownLatch(1);
    CountDownLatch answers = new CountDownLatch(1);
    LinkedBlockingQueue<Thread> askedBy = new LinkedBlockingQueue<>();
    watch = watching(new Looked() {
      @Override
      String stamp() throws IOException {
        askedBy.add(Thread.currentThread());
        asked.countDown();
        try {
          answers.await();
        } catch (InterruptedException e) {
          throw new IOException(e);
        }
        return super.stamp();
      }
    });
    watch.start(TimeUnit.MILLISECONDS.toNanos(1));
    assertTrue(asked.await(60, TimeUnit.SECONDS));
    watch.checkHang(System.nanoTime());
    assertTrue(said.isEmpty());
    long later = System.nanoTime() + TimeUnit.MINUTES.toNanos(1);
    watch.checkHang(later);
    watch.checkHang(later);
    assertEquals("[unreadable]", said.toString());
    assertEquals(1, askedBy.size());
    Thread thread = askedBy.take();
    assertTrue(thread.isDaemon());
    watch.stop();
    thread.join(60_000);
    assertFalse(thread.isAlive());
  }

  @Test
  void theThreadsEndWithTheApplicationThoughNobodyStopsThem() throws Exception {
    watch.start(TimeUnit.MILLISECONDS.toNanos(1));
    ended = true;
    ExecutorService clock = (ExecutorService) SparkInternals.get(watch, "clock");
    assertTrue(clock.awaitTermination(60, TimeUnit.SECONDS));
  }
}
