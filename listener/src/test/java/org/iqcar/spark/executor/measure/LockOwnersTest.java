package org.iqcar.spark.executor.measure;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.management.ManagementFactory;
import java.lang.management.ThreadInfo;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import java.util.concurrent.locks.ReentrantReadWriteLock;
import org.iqcar.spark.events.WaitClass;
import org.iqcar.spark.executor.threads.StackClassifier;
import org.junit.jupiter.api.Test;

/** Whose lock a thread waits for, and what of it is written. */
class LockOwnersTest {
  private static final long ME = Thread.currentThread().getId();

  /** Work of a thread that may be interrupted. */
  private interface Work {
    void run() throws InterruptedException;
  }

  /** Whom the plugin takes for the owner once a thread waits, with its stack and without it. */
  private static long ownerSeenBy(Work waits, Work entered) throws InterruptedException {
    CountDownLatch begun = new CountDownLatch(1);
    Thread waiter = new Thread(() -> {
      try {
        begun.countDown();
        waits.run();
      } catch (InterruptedException over) {
        Thread.currentThread().interrupt();
      }
    });
    waiter.setDaemon(true);
    waiter.start();
    begun.await();
    while (waiter.getState() == Thread.State.RUNNABLE) {
      Thread.sleep(1);
    }
    entered.run();
    ThreadInfo full = info(waiter, 64);
    WaitClass wait = StackClassifier.classify(
        full.getThreadState(), full.getStackTrace(), false, false);
    long owner = LockOwners.threadOf(full, wait);
    assertEquals(owner, LockOwners.threadOf(info(waiter, 0), wait));
    assertEquals(LockOwners.UNKNOWN, LockOwners.threadOf(full, WaitClass.OTHER));
    waiter.interrupt();
    return owner;
  }

  private static ThreadInfo info(Thread thread, int depth) {
    return ManagementFactory.getThreadMXBean().getThreadInfo(thread.getId(), depth);
  }

  @Test
  void theOwnerOfAMonitorAndOfALockIsTheThreadThatHoldsIt() throws InterruptedException {
    Object monitor = new Object();
    synchronized (monitor) {
      assertEquals(ME, ownerSeenBy(() -> {
        synchronized (monitor) {
          monitor.notifyAll();
        }
      }, () -> { }));
    }
    ReentrantLock lock = new ReentrantLock();
    ReentrantReadWriteLock both = new ReentrantReadWriteLock();
    lock.lock();
    both.writeLock().lock();
    try {
      assertEquals(ME, ownerSeenBy(lock::lockInterruptibly, () -> { }));
      assertEquals(ME, ownerSeenBy(both.readLock()::lockInterruptibly, () -> { }));
    } finally {
      lock.unlock();
      both.writeLock().unlock();
    }
  }

  @Test
  void nobodyOwnsWhatAThreadWaitsForThatWantsToBeNotified() throws InterruptedException {
    Object monitor = new Object();
    CountDownLatch leave = new CountDownLatch(1);
    // The JVM names this thread, which is in the monitor while the other one waits in it.
    assertEquals(LockOwners.UNKNOWN, ownerSeenBy(() -> {
      synchronized (monitor) {
        monitor.wait();
      }
    }, () -> {
      CountDownLatch inside = new CountDownLatch(1);
      Thread other = new Thread(() -> {
        synchronized (monitor) {
          inside.countDown();
          try {
            leave.await();
          } catch (InterruptedException over) {
            Thread.currentThread().interrupt();
          }
        }
      });
      other.start();
      inside.await();
    }));
    leave.countDown();

    ReentrantLock lock = new ReentrantLock();
    Condition never = lock.newCondition();
    assertEquals(LockOwners.UNKNOWN, ownerSeenBy(() -> {
      lock.lock();
      try {
        never.await();
      } finally {
        lock.unlock();
      }
    }, lock::lock));
    lock.unlock();
    assertEquals(LockOwners.UNKNOWN, ownerSeenBy(new CountDownLatch(1)::await, () -> { }));
  }

  @Test
  void readersAreNoOwners() throws InterruptedException {
    ReentrantReadWriteLock both = new ReentrantReadWriteLock();
    both.readLock().lock();
    try {
      assertEquals(LockOwners.UNKNOWN,
          ownerSeenBy(both.writeLock()::lockInterruptibly, () -> { }));
    } finally {
      both.readLock().unlock();
    }
  }

  @Test
  void aThreadThatEndedHasNoOwner() {
    assertEquals(LockOwners.UNKNOWN, LockOwners.threadOf(null, WaitClass.MONITOR_BLOCKED));
  }

  @Test
  void theLargestAreWrittenInMillisecondsThatNeverSumToMore() {
    LockOwners owners = new LockOwners();
    assertNull(owners.encode(1));
    owners.held(17, 800_900_000);
    owners.held(23, 40_000_000);
    owners.held(17, 20_000_000);
    owners.held(5, 900_000);
    assertEquals("17:820,23:40", owners.encode(1));
    assertEquals("17:1641,23:80,5:1", owners.encode(2));
  }

  @Test
  void aTaskThatMetManyOwnersKeepsTheLargestAndStaysSmall() {
    LockOwners owners = new LockOwners();
    for (int round = 1; round <= 3; round++) {
      for (long task = Long.MAX_VALUE; task > Long.MAX_VALUE - 500; task--) {
        owners.held(task, 2_000_000);
        owners.held(7, 1_000_000_000);
      }
    }
    String text = owners.encode(1);
    assertTrue(text.startsWith("7:1500000,"), text);
    assertEquals(LockOwners.MOST_WRITTEN, text.split(",").length);
    assertTrue(text.length() < 120, text);
  }
}
