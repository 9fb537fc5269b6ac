package org.iqcar.spark.executor.measure;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.lang.management.ThreadInfo;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.DoubleStream;
import org.iqcar.spark.events.WaitClass;
import org.iqcar.spark.settings.Settings;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * Rounds of the sampler over real threads: many wait and few compute. Time and costs are stand-ins,
 * so a slow machine changes nothing.
 */
class SamplerTest {
  private static final int ROUNDS = 100;
  private static final int BUSY = 2;
  private static final double SHARE = 0.01;
  private static final int PROCESSORS = 2;
  private static final Settings SETTINGS = new Settings(key -> null);

  /** Reads real stacks; what that costs is as measured with sleeping threads of 60 frames. */
  private static final class Costs extends Probe {
    final Map<Long, Integer> reads = new HashMap<>();
    final int threads;
    long began;
    long time;
    long stopped;
    long cpu;
    long longest;
    int processorsAsked;

    Costs(int threads) {
      super(SETTINGS);
      this.threads = threads;
    }

    @Override
    long nanos() {
      return time;
    }

    @Override
    long cpuNanos(Thread other) {
      return cpu += 3_000L * threads;
    }

    @Override
    int processors() {
      processorsAsked++;
      return PROCESSORS;
    }

    @Override
    ThreadInfo[] stacks(long[] ids) {
      for (long id : ids) {
        reads.merge(id, 1, Integer::sum);
      }
      longest = Math.max(longest, stoppedNanos(ids.length));
      stopped += stoppedNanos(ids.length);
      lastIds = ids.length;
      return super.stacks(ids);
    }

    private int lastIds;

    @Override
    long stoppedNanos() {
      return stoppedNanos(lastIds);
    }

    private static long stoppedNanos(int stacks) {
      return 180_000L + 15_600L * stacks;
    }
  }

  /** A thread that waits in one of two ways until it is interrupted, again and again. */
  private static final class Waiter extends Thread {
    private final Random random;
    private final CountDownLatch begun;
    private final Sampler sampler;
    volatile TaskWatch watch;
    volatile int waits;
    volatile boolean over;
    int sleeps;

    Waiter(int seed, CountDownLatch begun, Sampler sampler) {
      random = new Random(seed);
      this.begun = begun;
      this.sampler = sampler;
      setDaemon(true);
    }

    @Override
    public void run() {
      try {
        watch = sampler.watch(null);
        begun.countDown();
        while (!over) {
          boolean sleeps = random.nextInt(10) < 3;
          this.sleeps += sleeps ? 1 : 0;
          waits++;
          while (!Thread.interrupted()) {
            if (!sleeps) {
              LockSupport.park();
            } else if (slept()) {
              break;
            }
          }
        }
        watch.release();
      } catch (IOException e) {
        throw new IllegalStateException(e);
      }
    }

    private static boolean slept() {
      try {
        Thread.sleep(600_000);
        return false;
      } catch (InterruptedException woken) {
        return true;
      }
    }

    /** Wakes it and returns once it waits again. */
    void next() throws IOException {
      int before = waits;
      interrupt();
      while (waits == before || getState() != State.TIMED_WAITING && getState() != State.WAITING
          || watch.kernel != null && watch.kernel.seenState() != 'S') {
        Thread.yield();
      }
    }
  }

  @ParameterizedTest
  @ValueSource(ints = {4, 16, 64, 128})
  void theBudgetIsKeptThreadsTakeTurnsAndTheSplitIsRight(int threads) throws Exception {
    Costs costs = new Costs(threads);
    Sampler sampler = new Sampler(SETTINGS, costs);
    CountDownLatch begun = new CountDownLatch(threads);
    List<Waiter> waiters = new ArrayList<>();
    List<Thread> busy = new ArrayList<>();
    for (int i = 0; i < threads - BUSY; i++) {
      waiters.add(new Waiter(i, begun, sampler));
      waiters.get(i).start();
    }
    for (int i = 0; i < BUSY; i++) {
      Thread spins = new Thread(() -> {
        try {
          sampler.add(sampler.watch(null));
          begun.countDown();
          while (!Thread.currentThread().isInterrupted()) {
            Thread.yield();
          }
        } catch (IOException e) {
          throw new IllegalStateException(e);
        }
      });
      spins.setDaemon(true);
      spins.start();
      busy.add(spins);
    }
    begun.await();
    waiters.forEach(waiter -> sampler.add(waiter.watch));
    costs.began = System.nanoTime();
    costs.time = costs.began;
    sampler.begin();
    for (int round = 0; round < ROUNDS; round++) {
      for (Waiter waiter : waiters) {
        waiter.next();
      }
      costs.time += sampler.budget.periodNanos();
      sampler.round();
    }
    busy.forEach(Thread::interrupt);
    check(costs, waiters, sampler.budget);
    assertTrue(busy.stream().mapToInt(
        thread -> costs.reads.getOrDefault(thread.getId(), 0)).sum() <= ROUNDS / 10);
  }

  private static void check(Costs costs, List<Waiter> waiters, Budget budget) throws Exception {
    double round = 2 * 3_000.0 * costs.threads / PROCESSORS;
    double spent = costs.stopped + (double) costs.cpu / PROCESSORS;
    double elapsed = costs.time - costs.began;
    assertTrue(spent <= SHARE * (elapsed + Budget.SAVED_NANOS) + costs.longest + round,
        spent / elapsed + " of the time");
    assertEquals(1, costs.processorsAsked, "an answer opens files");
    double sleeps = 0;
    double seen = 0;
    double all = 0;
    int least = Integer.MAX_VALUE;
    int most = 0;
    for (Waiter waiter : waiters) {
      int reads = costs.reads.getOrDefault(waiter.getId(), 0);
      least = Math.min(least, reads);
      most = Math.max(most, reads);
      sleeps += (double) waiter.sleeps / waiter.waits / waiters.size();
      waiter.over = true;
      waiter.interrupt();
      waiter.join();
      double[] weights = waiter.watch.waits.weights();
      seen += weights[WaitClass.OTHER.ordinal()];
      all += DoubleStream.of(weights).sum();
      long coverage = waiter.watch.waits.coverage();
      double taken = 100.0 * reads / ROUNDS;
      assertTrue(budget.stands() > 1 ? coverage < taken : Math.abs(coverage - taken) <= 1,
          coverage + " % of looks, " + taken + " % of rounds");
    }
    assertTrue(least > 0 && most - least <= 1, least + " to " + most + " stacks of a thread");
    assertEquals(costs.threads <= 4, least == ROUNDS);
    assertEquals(sleeps, seen / all, costs.threads < 16 ? 0.1 : 0.06);
  }
}
