package org.iqcar.spark.driver.rules;

import java.io.IOException;
import java.lang.reflect.Method;
import java.nio.file.NoSuchFileException;
import java.util.HashSet;
import java.util.Locale;
import java.util.Set;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.Pool;
import org.apache.spark.scheduler.SchedulingMode;
import org.iqcar.spark.IqcarEventRules;
import org.iqcar.spark.events.PluginMetrics;
import org.iqcar.spark.safety.Safely;
import org.iqcar.spark.safety.SparkInternals;
import org.iqcar.spark.settings.Setting;
import org.iqcar.spark.settings.Settings;
import org.iqcar.spark.text.Sha256;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The rules of {@code spark.iqcar.rules}: reads them before the scheduler is created, so that it can
 * refuse to start, gives them to the scheduler afterwards, and watches the file from then on, also one
 * that holds no valid rules yet.
 *
 * <p>Rules that cannot be read stop the application, but only with
 * {@code spark.iqcar.rules.strict=true}. Any other failure leaves scheduling as without rules.
 */
public final class Rules {
  private static final Logger LOG = LoggerFactory.getLogger(Rules.class);
  static final String MODE = "spark.scheduler.mode";
  static final String FAIR = "FAIR";
  private static final String FIFO = "FIFO";
  private static final String ALLOCATION = "spark.scheduler.allocation.file";
  private static final String LET_REPLACE = "--enable-final-field-mutation=ALL-UNNAMED";

  private final SparkContext sc;
  private final Settings settings;
  /** Whether the scheduler is FAIR without rules. */
  private final boolean fair;
  /** The pools that exist without the file. */
  private final Pool others = new Pool("", SchedulingMode.FAIR(), 0, 0);
  private final RuleFile file;
  private PoolRules first = PoolRules.none();
  private final IqcarEventRules firstNews;
  private RuleWatch watch;
  /** Null where the scheduler cannot be reached. */
  private RuledScheduler scheduler;

  /** Reads Spark's own file of pools, and the rules, which may be missing where they are watched. */
  private Rules(SparkContext sc, Settings settings, boolean fair)
      throws ReflectiveOperationException {
    this.sc = sc;
    this.settings = settings;
    this.fair = fair;
    try {
      RuleFile.within(RuleFile.MOST_SECONDS, () -> {
        RuledScheduler.builder(others, sc).buildPools();
        return null;
      });
    } catch (IOException e) {
      throw new RulesRefused(settings.rules, "pools need spark.scheduler.mode=FAIR, but "
          + ALLOCATION + "=" + sc.conf().get(ALLOCATION, "fairscheduler.xml")
          + " cannot be read (" + e.getMessage() + ")", "correct that file");
    }
    Set<String> names = new HashSet<>();
    others.schedulableQueue().forEach(pool -> names.add(pool.name()));
    file = new RuleFile(settings.rules, SparkInternals.call(sc, "hadoopConfiguration"), names);
    firstNews = firstLook();
  }

  private IqcarEventRules firstLook() {
    String outcome = RuleNews.UNREADABLE;
    String hash = "";
    try {
      byte[] content;
      try {
        content = file.read();
      } catch (IOException | RuntimeException e) {
        outcome = e.getCause() instanceof NoSuchFileException ? RuleNews.MISSING : outcome;
        throw new RulesRefused(settings.rules, "cannot be read (" + e.getMessage() + ")",
            "name a file or URL that the driver can read in " + Setting.RULES.key);
      }
      hash = Sha256.of(content);
      outcome = RuleNews.REFUSED;
      first = file.parse(content);
      if (first.isEmpty()) {
        LOG.info("iqcar: {} holds no rules", settings.rules);
      }
      return RuleNews.accepted(hash, PoolRules.none(), first);
    } catch (RulesRefused refused) {
      if (settings.rulesStrict || settings.rulesWatchNanos == 0) {
        throw refused;
      }
      LOG.warn(refused.getMessage());
      return RuleNews.notAccepted(outcome, refused.reason(), hash, first);
    }
  }

  /**
   * Reads the rules; called before the scheduler is created.
   *
   * @return the rules, or null if none act and none can come
   * @throws RulesRefused if they cannot be read and the settings are strict; nothing else
   */
  public static Rules before(SparkContext sc) {
    return unlessRefused(sc.conf(), settings -> {
      String mode = sc.conf().get(MODE, FIFO).trim().toUpperCase(Locale.ROOT);
      // Another mode Spark does not know either, and does not start.
      return mode.equals(FAIR) || mode.equals(FIFO)
          ? new Rules(sc, settings, mode.equals(FAIR)) : null;
    });
  }

  /** Reads and applies the rules, as {@link #before}, where only a listener is configured. */
  public static Rules late(SparkConf conf) {
    Rules found = unlessRefused(conf, settings -> {
      SparkContext sc = SparkInternals.contextBeingMade();
      Pool root = sc.taskScheduler().rootPool();
      boolean fair = root != null && root.schedulingMode() == SchedulingMode.FAIR();
      Rules rules = new Rules(sc, settings, fair);
      if (!fair && (!rules.first.isEmpty() || settings.rulesWatchNanos > 0)) {
        throw new RulesRefused(MODE, "is not FAIR, and a listener comes too late to change it",
            "set it to FAIR, or " + Settings.PLUGINS + "=" + Settings.PLUGIN);
      }
      return rules;
    });
    if (found != null) {
      found.start();
    }
    return found;
  }

  /** Reads rules. */
  private interface Reading {
    Rules by(Settings settings) throws Exception;
  }

  private static Rules unlessRefused(SparkConf conf, Reading reading) {
    RulesRefused[] strict = {null};
    Rules found = Safely.get("reading rules", null, () -> {
      Settings settings = Settings.from(conf);
      try {
        Rules rules = settings.rules == null ? null : reading.by(settings);
        boolean none = rules != null && rules.first.isEmpty() && settings.rulesWatchNanos == 0;
        return none ? null : rules;
      } catch (RulesRefused refused) {
        if (settings.rulesStrict) {
          strict[0] = refused;
        } else {
          LOG.warn(refused.getMessage());
        }
        return null;
      }
    });
    if (strict[0] != null) {
      throw strict[0];
    }
    return found;
  }

  /** Adds the rules to the scheduler and watches their file; throws nothing. */
  public void start() {
    boolean started = Safely.run("applying rules", () -> {
      try {
        startNow();
      } catch (IllegalAccessException refused) {
        LOG.warn("iqcar: no rules are applied: this Java lets nobody replace a final field ({}); "
            + "jobs run as without rules. Start the driver with {}",
            refused.getMessage(), LET_REPLACE);
      }
    });
    if (!started) {
      LOG.warn("iqcar: no rules are applied: the scheduler of this Spark cannot be reached; "
          + "jobs run as without rules");
    }
  }

  private void startNow() throws Exception {
    scheduler = into(sc.taskScheduler());
    if (!fair) {
      Safely.run("telling Spark's UI and log of FAIR", () -> {
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
    post(firstNews);
    if (settings.rulesWatchNanos > 0) {
      watch = new RuleWatch(file, scheduler, first, firstNews, this::tell);
      watch.start(settings.rulesWatchNanos);
    }
  }

  /** Adds the rules to a scheduler; where it cannot, the scheduler is as it was. */
  RuledScheduler into(Object made) throws Exception {
    RuledScheduler ruled = new RuledScheduler(sc, made);
    ruled.begin(first, fair ? null : others);
    return ruled;
  }

  private void tell(IqcarEventRules news) {
    if (news.outcome.equals(RuleNews.ACCEPTED)) {
      LOG.info("iqcar: rules of {} apply: {} pools, {} assignments, {} changes", settings.rules,
          news.pools, news.assignments, news.changes.size() + news.changesLeftOut);
    } else {
      LOG.warn("iqcar: the rules stay as they are: {} is {}: {}",
          settings.rules, news.outcome, news.reason);
    }
    post(news);
  }

  private void post(IqcarEventRules news) {
    if (!sc.isStopped()) {
      news.timeMs = System.currentTimeMillis();
      sc.listenerBus().post(news);
    }
  }

  /** Tells what the rules do now and did so far; nothing where the scheduler cannot be reached. */
  public void gauges(PluginMetrics metrics) {
    if (scheduler != null) {
      scheduler.gauges(metrics);
    }
  }

  /** Looks at the file no longer, and holds no job. */
  public void stop() {
    if (watch != null) {
      watch.stop();
    }
    if (scheduler != null) {
      scheduler.stop();
    }
  }
}
