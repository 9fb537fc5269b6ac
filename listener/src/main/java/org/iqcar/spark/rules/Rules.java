package org.iqcar.spark.rules;

import java.io.IOException;
import java.lang.reflect.Field;
import java.util.HashSet;
import java.util.Locale;
import java.util.Set;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.Pool;
import org.apache.spark.scheduler.SchedulableBuilder;
import org.apache.spark.scheduler.SchedulingMode;
import org.iqcar.spark.safety.Faults;
import org.iqcar.spark.safety.SparkInternals;
import org.iqcar.spark.settings.Setting;
import org.iqcar.spark.settings.Settings;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Applies the rules of {@code spark.iqcar.rules}: reads them before the scheduler is created,
 * because FAIR can only be chosen then, and adds pools and {@link PoolChooser} to it afterwards.
 *
 * <p>Rules that cannot be read stop the application, but only with
 * {@code spark.iqcar.rules.strict=true}. Any other failure leaves scheduling as without rules.
 */
public final class Rules {
  private static final Logger LOG = LoggerFactory.getLogger(Rules.class);
  private static final String MODE = "spark.scheduler.mode";
  private static final String FAIR = "FAIR";
  private static final String QUEUE = "iqcar";
  /** 8 MB; a file of a thousand assignments takes some 200 KB. */
  private static final int MOST_BYTES = 8 << 20;

  private final SparkContext sc;
  private final String path;
  private final PoolRules rules;
  /** Whether the default pool stays first in, first out, as without rules. */
  private final boolean keepDefaultFifo;

  private Rules(SparkContext sc, String path, PoolRules rules, boolean keepDefaultFifo) {
    this.sc = sc;
    this.path = path;
    this.rules = rules;
    this.keepDefaultFifo = keepDefaultFifo;
  }

  /**
   * Reads the rules and switches FAIR on if needed; called before the scheduler is created.
   *
   * @return the rules, or null without any
   * @throws RulesRefused if they cannot be read and the settings are strict
   */
  public static Rules before(SparkContext sc) {
    SparkConf conf = sc.conf();
    return read(sc, isFair(conf.get(MODE, "FIFO")), () -> conf.set(MODE, FAIR));
  }

  /** Reads and applies the rules where only a listener is configured: the scheduler exists. */
  public static void applyLate(SparkConf conf) throws ReflectiveOperationException {
    if (Settings.from(conf).rules == null) {
      return;
    }
    SparkContext sc = SparkInternals.contextBeingMade();
    Pool root = sc.taskScheduler().rootPool();
    boolean fair = root != null && root.schedulingMode() == SchedulingMode.FAIR();
    Rules found = read(sc, fair, () -> {
      throw new RulesRefused(MODE, "is not FAIR, and a listener comes too late to change it",
          "set it to FAIR, or spark.plugins=org.iqcar.spark.IqcarPlugin");
    });
    if (found != null) {
      found.apply();
    }
  }

  private static Rules read(SparkContext sc, boolean fair, Runnable switchToFair) {
    Settings settings = Settings.from(sc.conf());
    if (settings.rules == null) {
      return null;
    }
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
      PoolRules rules = PoolRules.parse(settings.rules, bytes(settings.rules, hadoop), others);
      if (rules.isEmpty()) {
        LOG.info("iqcar: {} holds no rules", settings.rules);
        return null;
      }
      if (!fair) {
        switchToFair.run();
      }
      return new Rules(sc, settings.rules, rules, !fair && !file.present);
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

  private static byte[] bytes(String path, Object hadoop) {
    try {
      return RuleFile.read(path, hadoop, MOST_BYTES);
    } catch (IOException | RuntimeException e) {
      throw new RulesRefused(path, "cannot be read (" + e.getMessage() + ")",
          "name a file or URL that the driver can read in " + Setting.RULES.key());
    }
  }

  private static boolean isFair(String mode) {
    return mode.trim().toUpperCase(Locale.ROOT).equals(FAIR);
  }

  /** Adds the rules to the scheduler; never throws. */
  public void apply() {
    try {
      Faults.at("rules.apply");
      Object scheduler = sc.taskScheduler();
      // The scheduler holds this lock when it adds to its pools.
      synchronized (scheduler) {
        Field field = SparkInternals.field(scheduler, "schedulableBuilder");
        SchedulableBuilder builder = (SchedulableBuilder) field.get(scheduler);
        RuleRoot root = new RuleRoot(new SlotsNow(sc));
        root.takePlace(scheduler, builder);
        Pools pools = new Pools(root, rules.pools.values(), keepDefaultFifo);
        pools.make();
        Placement placement = new Placement(rules);
        sc.listenerBus().addToQueue(placement, QUEUE);
        field.set(scheduler, new PoolChooser(builder, placement, pools));
      }
      LOG.info("iqcar: rules of {} apply: {} pools, {} assignments",
          path, rules.pools.size(), rules.assignments.size());
    } catch (Throwable failure) {
      LOG.warn("iqcar: no rules are applied: the scheduler of this Spark cannot be reached; "
          + "jobs run as without rules", failure);
    }
  }
}
