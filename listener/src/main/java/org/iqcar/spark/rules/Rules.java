package org.iqcar.spark.rules;

import java.io.IOException;
import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.nio.file.NoSuchFileException;
import java.util.HashSet;
import java.util.Locale;
import java.util.Set;
import java.util.function.Consumer;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.FairSchedulableBuilder;
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
 * Applies the rules of {@code spark.iqcar.rules}: reads them before the scheduler is created, so
 * that it can refuse to start, and gives the scheduler pools and {@link PoolChooser} afterwards,
 * FAIR last. It watches the file from then on, also one that holds no valid rules yet.
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
  private static final String ALLOCATION = "spark.scheduler.allocation.file";
  private static final String LET_REPLACE = "--enable-final-field-mutation=ALL-UNNAMED";
  /** 8 MB; a file of a thousand assignments takes some 200 KB. */
  private static final int MOST_BYTES = 8 << 20;

  private final SparkContext sc;
  private final Object hadoop;
  private final Settings settings;
  /** Whether the scheduler is FAIR without rules. */
  private final boolean fair;
  /** The pools that exist without the file, and their names. */
  private final Pool others;
  private final Set<String> otherNames;
  private final PoolRules first;
  private final RuleNews firstNews;
  private RuleWatch watch;
  private HeldJobs held;
  private RuleCounts counts;

  private Rules(SparkContext sc, Object hadoop, boolean fair, Pool others, PoolRules first,
      RuleNews firstNews) {
    this.sc = sc;
    this.hadoop = hadoop;
    settings = Settings.from(sc.conf());
    this.fair = fair;
    this.others = others;
    otherNames = names(others);
    this.first = first;
    this.firstNews = firstNews;
  }

  /**
   * Reads the rules; called before the scheduler is created.
   *
   * @return the rules, or null if none act and none can come
   * @throws RulesRefused if they cannot be read and the settings are strict
   */
  public static Rules before(SparkContext sc) {
    String mode = sc.conf().get(MODE, FIFO).trim().toUpperCase(Locale.ROOT);
    if (!mode.equals(FAIR) && !mode.equals(FIFO)) {
      return null; // Spark does not know it either and does not start
    }
    return read(sc, mode.equals(FAIR), false);
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
    Rules found = read(sc, fair, true);
    if (found != null) {
      found.apply(news);
    }
    return found;
  }

  private static Rules read(SparkContext sc, boolean fair, boolean late) {
    Settings settings = Settings.from(sc.conf());
    if (settings.rules == null) {
      return null;
    }
    boolean watched = settings.rulesWatchNanos > 0;
    try {
      Object hadoop = SparkInternals.call(sc, "hadoopConfiguration");
      Pool others = new Pool("", SchedulingMode.FAIR(), 0, 0);
      try {
        RuleFile.within(RuleFile.MOST_SECONDS, () -> {
          builder(others, sc).buildPools();
          return null;
        });
      } catch (IOException e) {
        throw new RulesRefused(settings.rules, "pools need spark.scheduler.mode=FAIR, but "
            + ALLOCATION + "=" + sc.conf().get(ALLOCATION, "fairscheduler.xml")
            + " cannot be read (" + e.getMessage() + ")", "correct that file");
      }
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
        rules = PoolRules.parse(settings.rules, content, names(others));
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
      if (!fair && late) {
        throw new RulesRefused(MODE, "is not FAIR, and a listener comes too late to change it",
            "set it to FAIR, or spark.plugins=org.iqcar.spark.IqcarPlugin");
      }
      return new Rules(sc, hadoop, fair, others, rules, news);
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

  /** Spark's own maker of pools; what it takes beside the root differs between versions. */
  private static SchedulableBuilder builder(Pool root, SparkContext sc)
      throws ReflectiveOperationException {
    Constructor<?> made = FairSchedulableBuilder.class.getConstructors()[0];
    return (SchedulableBuilder) made.newInstance(
        root, made.getParameterTypes()[1] == SparkConf.class ? sc.conf() : sc);
  }

  private static Set<String> names(Pool root) {
    Set<String> found = new HashSet<>();
    root.schedulableQueue().forEach(pool -> found.add(pool.name()));
    return found;
  }

  /**
   * Adds the rules to the scheduler and watches their file; throws nothing.
   *
   * @param news is told which rules act, now and whenever that changes
   */
  public void apply(Consumer<RuleNews> news) {
    try {
      Faults.at("rules.apply");
      Object scheduler = sc.taskScheduler();
      PoolChooser chooser = apply(scheduler);
      counts = new RuleCounts(chooser);
      if (!fair) {
        Failures.attempt("telling Spark's UI and log of FAIR", () -> {
          // They were told of FIFO before the rules could act; the last one counts.
          Method tell = SparkContext.class.getDeclaredMethod("postEnvironmentUpdate");
          tell.setAccessible(true);
          tell.invoke(sc);
        });
      }
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
    } catch (IllegalAccessException refused) {
      LOG.warn("iqcar: no rules are applied: this Java lets nobody replace a final field ({}); "
          + "jobs run as without rules. Start the driver with {}", refused.getMessage(), LET_REPLACE);
    } catch (Throwable failure) {
      LOG.warn("iqcar: no rules are applied: the scheduler of this Spark cannot be reached; "
          + "jobs run as without rules", failure);
    }
  }

  /**
   * Adds the rules to a scheduler.
   *
   * @throws Exception if it cannot; then the scheduler is as it was, as after any other failure
   */
  PoolChooser apply(Object scheduler) throws Exception {
    for (Class<?> made : new Class<?>[] {
        RuleRoot.class, RulePool.class, TurnQueue.class, PoolChooser.class}) {
      SparkInternals.checkOverrides(made);
    }
    // The scheduler holds this lock when it adds to its pools.
    synchronized (scheduler) {
      Field field = SparkInternals.field(scheduler, "schedulableBuilder");
      SchedulableBuilder before = (SchedulableBuilder) field.get(scheduler);
      DroppedEvents dropped = new DroppedEvents(sc);
      held = new HeldJobs(() -> offerSlots(scheduler), () -> dropped.of(QUEUE));
      if (backend(scheduler) == null) {
        held.stop();
      }
      RuleRoot root = new RuleRoot(new SlotsNow(sc), held);
      Placement placement = new Placement(first, held, this::runs);
      PoolChooser chooser = new PoolChooser(builder(root, sc), placement, new Pools(root));
      placement.onLateAnswer(job -> {
        synchronized (scheduler) {
          chooser.place(job);
        }
        offerSlots(scheduler);
      });
      root.takePlace(scheduler, fair ? before.rootPool() : others, () -> {
        chooser.become(first);
        sc.listenerBus().addToQueue(placement, QUEUE);
        field.set(scheduler, chooser);
        sc.conf().set(MODE, FAIR);
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
        return PoolRules.parse(settings.rules, content, otherNames);
      }

      @Override
      public void apply(PoolRules next) {
        chooser.prepare(next);
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
