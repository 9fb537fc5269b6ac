package org.iqcar.spark.rules;

import java.io.IOException;
import java.lang.reflect.Field;
import java.nio.file.NoSuchFileException;
import java.util.HashSet;
import java.util.Locale;
import java.util.Set;
import java.util.function.Consumer;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.Pool;
import org.apache.spark.scheduler.SchedulableBuilder;
import org.apache.spark.scheduler.SchedulerBackend;
import org.apache.spark.scheduler.SchedulingMode;
import org.iqcar.spark.safety.DroppedEvents;
import org.iqcar.spark.safety.Failures;
import org.iqcar.spark.safety.Faults;
import org.iqcar.spark.safety.SparkInternals;
import org.iqcar.spark.settings.Setting;
import org.iqcar.spark.settings.Settings;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Applies the rules of {@code spark.iqcar.rules}: reads them before the scheduler is created,
 * because FAIR can only be chosen then, and adds pools and {@link PoolChooser} to it afterwards.
 * It watches the file from then on, also one that holds no valid rules yet.
 *
 * <p>Rules that cannot be read stop the application, but only with
 * {@code spark.iqcar.rules.strict=true}. Any other failure leaves scheduling as without rules.
 */
public final class Rules {
  private static final Logger LOG = LoggerFactory.getLogger(Rules.class);
  private static final String MODE = "spark.scheduler.mode";
  private static final String FAIR = "FAIR";
  private static final String FIFO = "FIFO";
  private static final String QUEUE = "iqcar";
  /** 8 MB; a file of a thousand assignments takes some 200 KB. */
  private static final int MOST_BYTES = 8 << 20;

  private final SparkContext sc;
  private final Object hadoop;
  private final Settings settings;
  /** Pools that exist without the file. */
  private final Set<String> others;
  /** Whether the default pool stays first in, first out, as without rules. */
  private final boolean keepDefaultFifo;
  private final PoolRules first;
  private final RuleNews firstNews;
  private RuleWatch watch;
  private HeldJobs held;
  private RuleCounts counts;

  private Rules(SparkContext sc, Object hadoop, Set<String> others, boolean keepDefaultFifo,
      PoolRules first, RuleNews firstNews) {
    this.sc = sc;
    this.hadoop = hadoop;
    settings = Settings.from(sc.conf());
    this.others = others;
    this.keepDefaultFifo = keepDefaultFifo;
    this.first = first;
    this.firstNews = firstNews;
  }

  /**
   * Reads the rules and switches FAIR on if needed; called before the scheduler is created.
   *
   * @return the rules, or null if none act and none can come
   * @throws RulesRefused if they cannot be read and the settings are strict
   */
  public static Rules before(SparkContext sc) {
    SparkConf conf = sc.conf();
    String mode = conf.get(MODE, FIFO).trim().toUpperCase(Locale.ROOT);
    if (!mode.equals(FAIR) && !mode.equals(FIFO)) {
      return null; // Spark does not know it either and does not start
    }
    return read(sc, mode.equals(FAIR), () -> conf.set(MODE, FAIR));
  }

  /**
   * Reads and applies the rules where only a listener is configured: the scheduler exists.
   *
   * @return the rules, or null if none act and none can come
   */
  public static Rules applyLate(SparkConf conf, Consumer<RuleNews> news)
      throws ReflectiveOperationException {
    if (Settings.from(conf).rules == null) {
      return null;
    }
    SparkContext sc = SparkInternals.contextBeingMade();
    Pool root = sc.taskScheduler().rootPool();
    boolean fair = root != null && root.schedulingMode() == SchedulingMode.FAIR();
    Rules found = read(sc, fair, () -> {
      throw new RulesRefused(MODE, "is not FAIR, and a listener comes too late to change it",
          "set it to FAIR, or spark.plugins=org.iqcar.spark.IqcarPlugin");
    });
    if (found != null) {
      found.apply(news);
    }
    return found;
  }

  private static Rules read(SparkContext sc, boolean fair, Runnable switchToFair) {
    Settings settings = Settings.from(sc.conf());
    if (settings.rules == null) {
      return null;
    }
    boolean watched = settings.rulesWatchNanos > 0;
    try {
      Object hadoop = SparkInternals.call(sc, "hadoopConfiguration");
      AllocationFile file;
      try {
        file = AllocationFile.read(sc.conf(), hadoop);
      } catch (IOException e) {
        throw new RulesRefused(settings.rules, "pools need spark.scheduler.mode=FAIR, but "
            + e.getMessage(), "correct that file");
      }
      Set<String> others = new HashSet<>(file.pools);
      others.add(PoolRules.DEFAULT_POOL);
      PoolRules rules = PoolRules.none();
      RuleNews news;
      String hash = "";
      String outcome = RuleNews.UNREADABLE;
      try {
        byte[] content;
        try {
          content = RuleFile.read(settings.rules, hadoop, MOST_BYTES);
        } catch (IOException | RuntimeException e) {
          outcome = e.getCause() instanceof NoSuchFileException ? RuleNews.MISSING : outcome;
          throw new RulesRefused(settings.rules, "cannot be read (" + e.getMessage() + ")",
              "name a file or URL that the driver can read in " + Setting.RULES.key());
        }
        hash = RuleFile.hash(content);
        outcome = RuleNews.REFUSED;
        rules = PoolRules.parse(settings.rules, content, others);
        news = RuleNews.accepted(hash, rules, RuleChange.between(PoolRules.none(), rules));
        if (rules.isEmpty()) {
          LOG.info("iqcar: {} holds no rules", settings.rules);
        }
      } catch (RulesRefused refused) {
        if (settings.rulesStrict || !watched) {
          throw refused;
        }
        LOG.warn(refused.getMessage());
        news = RuleNews.notAccepted(outcome, refused.reason(), hash, rules);
      }
      if (rules.isEmpty() && !watched) {
        return null;
      }
      if (!fair) {
        switchToFair.run();
      }
      return new Rules(sc, hadoop, others, !fair && !file.present, rules, news);
    } catch (RulesRefused refused) {
      if (settings.rulesStrict) {
        throw refused;
      }
      LOG.warn(refused.getMessage());
      return null;
    } catch (ReflectiveOperationException e) {
      throw new IllegalStateException(e);
    }
  }

  /**
   * Adds the rules to the scheduler and watches their file; throws what is fatal only.
   *
   * @param news is told which rules act, now and whenever that changes
   */
  public void apply(Consumer<RuleNews> news) {
    try {
      Faults.at("rules.apply");
      Object scheduler = sc.taskScheduler();
      PoolChooser chooser = apply(scheduler);
      counts = new RuleCounts(chooser);
      if (!first.isEmpty()) {
        LOG.info("iqcar: rules of {} apply: {} pools, {} assignments",
            settings.rules, first.pools.size(), first.assignments.size());
      }
      news.accept(firstNews);
      if (settings.rulesWatchNanos > 0) {
        watch = new RuleWatch(source(), target(scheduler, chooser), first, firstNews, found -> {
          log(found);
          news.accept(found);
        });
        watch.start(settings.rulesWatchNanos);
      }
    } catch (Throwable failure) {
      LOG.warn("iqcar: no rules are applied: the scheduler of this Spark cannot be reached; "
          + "jobs run as without rules", failure);
    }
  }

  /**
   * Adds the rules to a scheduler.
   *
   * @throws ReflectiveOperationException if it cannot; then the scheduler is as it was, as after
   *     any other failure
   */
  PoolChooser apply(Object scheduler) throws ReflectiveOperationException {
    for (Class<?> made : new Class<?>[] {
        RuleRoot.class, RulePool.class, TurnQueue.class, PoolChooser.class}) {
      SparkInternals.checkOverrides(made);
    }
    // The scheduler holds this lock when it adds to its pools.
    synchronized (scheduler) {
      Field field = SparkInternals.field(scheduler, "schedulableBuilder");
      SchedulableBuilder builder = (SchedulableBuilder) field.get(scheduler);
      DroppedEvents dropped = new DroppedEvents(sc);
      held = new HeldJobs(() -> offerSlots(scheduler), () -> dropped.of(QUEUE));
      if (backend(scheduler) == null) {
        held.stop();
      }
      RuleRoot root = new RuleRoot(new SlotsNow(sc), held);
      Placement placement =
          new Placement(first, settings.rulesWatchNanos > 0, held, this::runs);
      PoolChooser chooser = new PoolChooser(builder, placement, new Pools(root, keepDefaultFifo));
      placement.onLateAnswer(job -> {
        synchronized (scheduler) {
          chooser.place(job);
        }
        offerSlots(scheduler);
      });
      root.takePlace(scheduler, builder, () -> {
        chooser.become(first);
        sc.listenerBus().addToQueue(placement, QUEUE);
        field.set(scheduler, chooser);
        return chooser;
      });
      return chooser;
    }
  }

  /** Counts of what the rules do; null where the scheduler cannot be reached. */
  public RuleCounts counts() {
    return counts;
  }

  /** Looks at the file no longer. */
  public void stop() {
    if (watch != null) {
      watch.stop();
    }
    if (held != null) {
      held.stop();
    }
  }

  private RuleWatch.Source source() {
    return new RuleWatch.Source() {
      @Override
      public String stamp() throws IOException {
        return RuleFile.stamp(settings.rules, hadoop);
      }

      @Override
      public byte[] read() throws IOException {
        return RuleFile.readNow(settings.rules, hadoop, MOST_BYTES);
      }
    };
  }

  private RuleWatch.Target target(Object scheduler, PoolChooser chooser) {
    return new RuleWatch.Target() {
      @Override
      public PoolRules parse(byte[] content) {
        return PoolRules.parse(settings.rules, content, others);
      }

      @Override
      public void apply(PoolRules next) {
        synchronized (scheduler) {
          chooser.become(next);
        }
        // Of a cap that is raised, idle slots are offered now, not when a task has ended.
        offerSlots(scheduler);
      }

      @Override
      public boolean ended() {
        return sc.isStopped();
      }
    };
  }

  /** Whether a job runs; the thread that asks is the one on which jobs begin and end. */
  private boolean runs(int job) {
    return sc.dagScheduler().jobIdToActiveJob().contains(job);
  }

  private static void offerSlots(Object scheduler) {
    SchedulerBackend backend = backend(scheduler);
    if (backend != null) {
      backend.reviveOffers();
    }
  }

  /** What makes a scheduler offer its slots; null where it cannot be reached. */
  private static SchedulerBackend backend(Object scheduler) {
    try {
      return (SchedulerBackend) SparkInternals.get(scheduler, "backend");
    } catch (ReflectiveOperationException | RuntimeException failure) {
      Failures.note("offering slots after a change of pools", failure);
      return null;
    }
  }

  private void log(RuleNews news) {
    if (news.outcome.equals(RuleNews.ACCEPTED)) {
      LOG.info("iqcar: rules of {} apply: {} pools, {} assignments, {} changes",
          settings.rules, news.pools, news.assignments, news.changes.size());
    } else {
      LOG.warn("iqcar: the rules stay as they are: {} is {}: {}",
          settings.rules, news.outcome, news.reason);
    }
  }
}
