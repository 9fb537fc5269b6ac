package org.iqcar.spark.settings;

/** The settings of the plugin: key, default, first version, and meaning. */
public enum Setting {
  ENABLED("spark.iqcar.enabled", "true", "0.1.0",
      "Measure and record at all. false leaves Spark as if the jar were not there."),
  SAMPLE_PERIOD("spark.iqcar.sample.period", "20ms", "0.1.0",
      "Time between two looks at each running task. 0 = no sampling: totals stay exact, "
          + "but waits are not split by class and no profile is recorded."),
  SAMPLE_DEPTH("spark.iqcar.sample.depth", "32", "0.1.0",
      "Stack frames read of a task that is off the processor."),
  OVERHEAD("spark.iqcar.overhead", "1%", "0.2.0",
      "Most that sampling may cost: the time for which it stops the JVM, plus its threads' CPU "
          + "divided by the processors, as part of the elapsed time. Beyond it, stacks are left "
          + "out and the period grows; records tell how much as coverage_pct."),
  PROFILE_BUCKET("spark.iqcar.profile.bucket", "250ms", "0.1.0",
      "Width of one interval of a task's profile. 0 = no profile."),
  PROFILE_BUCKETS("spark.iqcar.profile.buckets", "120", "0.1.0",
      "Most intervals in one profile; a longer task doubles their width."),
  PROFILE_BYTES("spark.iqcar.profile.bytes", "1500", "0.1.0",
      "Most bytes of one profile; a larger one doubles the width of its intervals."),
  CONTENTION("spark.iqcar.contention.enabled", "true", "0.1.0",
      "Let the JVM keep the blocked and waited time of its threads."),
  PYTHON("spark.iqcar.python.enabled", "true", "0.1.0",
      "Split the wait for a Python worker by what the worker process did (Linux only)."),
  HOST("spark.iqcar.host.enabled", "true", "0.1.0",
      "Sample each host and the executors' processes with Python's psutil."),
  HOST_PERIOD("spark.iqcar.host.period", "1s", "0.1.0",
      "Time between two samples of a busy host; 100ms at least. Of a quiet one, ten times that."),
  HOST_BYTES("spark.iqcar.host.bytes", "1000000", "0.2.0",
      "Most bytes of samples a minute in the event log, of all hosts together: more hosts are "
          + "sampled more seldom. 10000 at least."),
  HOST_PYTHON("spark.iqcar.host.python", "auto", "0.1.0",
      "Python with psutil on the executors' hosts. auto = spark.pyspark.python, else the "
          + "variable PYSPARK_PYTHON, else python3."),
  PROC("spark.iqcar.proc", "/proc", "0.1.0",
      "Where the kernel's process files are. Without them there is no run-queue wait."),
  RULES("spark.iqcar.rules", "none", "0.1.0",
      "Compiled rules to apply: a path or URL that the driver can read. none = no rules."),
  RULES_STRICT("spark.iqcar.rules.strict", "false", "0.1.0",
      "Do not start an application whose rules cannot be read, instead of going on without them."),
  RULES_WATCH("spark.iqcar.rules.watchMs", "1000", "0.2.0",
      "Time between two looks at the file of rules, which act again when it has changed; 100 at "
          + "least. 0 = the file is read once, when the application starts."),
  LIVE("spark.iqcar.live", "none", "0.2.0",
      "host:port at which the driver streams its events to `iqcar live spark-live://host:port`. "
          + "none = nothing listens. On any but a loopback address it takes a token that "
          + "you give."),
  LIVE_TOKEN("spark.iqcar.live.token", "none", "0.2.0",
      "What a follower must send first, 16 characters at least. file:PATH = the content of a file "
          + "that nobody else can read. none = the driver's variable IQCAR_LIVE_TOKEN, else a new "
          + "one in ~/.iqcar.");

  public final String key;
  /** The value used when the setting is absent or unreadable. */
  public final String fallback;
  public final String since;
  public final String doc;

  Setting(String key, String fallback, String since, String doc) {
    this.key = key;
    this.fallback = fallback;
    this.since = since;
    this.doc = doc;
  }
}
