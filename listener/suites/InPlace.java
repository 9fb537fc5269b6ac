package org.iqcar.spark.driver.rules;

import java.lang.instrument.ClassFileTransformer;
import java.lang.instrument.Instrumentation;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.ProtectionDomain;
import java.util.Arrays;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicInteger;
import net.bytebuddy.agent.ByteBuddyAgent;
import net.bytebuddy.jar.asm.ClassReader;
import net.bytebuddy.jar.asm.ClassVisitor;
import net.bytebuddy.jar.asm.ClassWriter;
import net.bytebuddy.jar.asm.MethodVisitor;
import net.bytebuddy.jar.asm.Opcodes;
import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.Pool;
import org.apache.spark.scheduler.SchedulingMode;
import org.apache.spark.scheduler.SparkListenerJobStart;
import org.apache.spark.scheduler.StageInfo;
import org.apache.spark.scheduler.TaskSchedulerImpl;
import org.apache.spark.scheduler.TaskSet;
import org.iqcar.spark.safety.Failures;
import org.iqcar.spark.safety.SparkInternals;

/**
 * Runs Spark's own suites with the plugin's rules in every scheduler and every pool that they make.
 *
 * <p>Arguments: {@code spark}, which is no plugin, {@code none}, {@code one}, {@code wide}, {@code loose} or {@code strict}, the rules;
 * then those of ScalaTest's runner. A context has the plugin by its settings. A scheduler that a
 * suite makes by itself gets the rules when it has been initialised, and of each task set that it
 * gets, the rules are told a job first, as the listener bus would.
 */
public final class InPlace implements ClassFileTransformer {
  private static final String SPARK = "org/apache/spark/scheduler/";
  private static final String ME = "org/iqcar/spark/driver/rules/InPlace";
  private static final String GROUP = "suite";
  private static final AtomicInteger SCHEDULERS = new AtomicInteger();
  private static final AtomicInteger POOLS = new AtomicInteger();
  private static String cap = "";

  private InPlace() {}

  public static void main(String[] args) throws Exception {
    String[] rest = Arrays.copyOfRange(args, 1, args.length);
    String assignments = "{\"pool\":\"ruled\",\"job_group\":\"" + GROUP + "\"}";
    switch (args[0]) {
      case "spark": run(rest); return;
      case "none": assignments = ""; break;
      case "one": break;
      case "wide": cap = ",\"cap\":1000,\"strict\":true"; break;
      case "loose": cap = ",\"cap\":1"; break;
      case "strict": cap = ",\"cap\":1,\"strict\":true"; break;
      default: throw new IllegalArgumentException(args[0]);
    }
    String rules = "{\"schema_version\":\"1\",\"pools\":[" + (assignments.isEmpty() ? ""
        : "{\"name\":\"ruled\",\"weight\":1" + cap + "}") + "],\"assignments\":[" + assignments + "]}";
    Path file = Files.createTempFile("rules", ".json");
    Files.write(file, rules.getBytes(StandardCharsets.UTF_8));
    System.setProperty("spark.plugins", "org.iqcar.spark.IqcarPlugin");
    System.setProperty("spark.iqcar.host.enabled", "false");
    System.setProperty("spark.iqcar.rules", file.toString());
    Instrumentation jvm = ByteBuddyAgent.install();
    jvm.addTransformer(new InPlace(), true);
    jvm.retransformClasses(TaskSchedulerImpl.class); // which this class's signatures have loaded
    run(rest);
  }

  private static void run(String[] args) {
    boolean passed = org.scalatest.tools.Runner.run(args);
    System.out.println("IN PLACE " + SCHEDULERS + " schedulers, " + POOLS + " pools, "
        + Failures.count() + " failures of the plugin");
    System.exit(passed ? 0 : 1);
  }

  /** Called at the end of TaskSchedulerImpl.initialize. */
  public static void initialized(TaskSchedulerImpl scheduler) {
    try {
      SparkContext sc = scheduler.sc();
      SCHEDULERS.incrementAndGet();
      if (sc.taskScheduler() != null) { // else the context is being made, and has the plugin
        Rules rules = Rules.before(sc);
        rules.into(scheduler).stop();
      }
    } catch (Throwable failure) {
      Failures.note("standing in place", failure);
    }
  }

  @SuppressWarnings("unchecked")
  private static scala.collection.immutable.Seq<StageInfo> noStages() {
    return (scala.collection.immutable.Seq<StageInfo>) (Object)
        scala.collection.immutable.Nil$.MODULE$;
  }

  /** Called at the start of TaskSchedulerImpl.submitTasks. */
  public static void submitting(TaskSchedulerImpl scheduler, TaskSet tasks) {
    try {
      Object chooser = SparkInternals.get(scheduler, "schedulableBuilder");
      if (chooser instanceof PoolChooser) {
        Properties properties = new Properties();
        properties.setProperty("spark.jobGroup.id", GROUP);
        ((Placement) SparkInternals.get(chooser, "placement")).onJobStart(new SparkListenerJobStart(
            tasks.priority(), 0, noStages(), properties));
      }
    } catch (Throwable failure) {
      Failures.note("telling a job", failure);
    }
  }

  /** What {@code new Pool} makes; a root that is not fair is never replaced. */
  public static Pool pool(String name, scala.Enumeration.Value mode, int minShare, int weight) {
    POOLS.incrementAndGet();
    if (mode.equals(SchedulingMode.NONE())) {
      return new Pool(name, mode, minShare, weight); // which Spark refuses
    }
    if (!name.isEmpty()) {
      return new RulePool(new PoolRules.PoolSpec(name, weight, minShare, mode.toString(),
          cap.isEmpty() ? 0 : cap.contains("1000") ? 1000 : 1, 0.0, cap.contains("strict")));
    }
    return mode.equals(SchedulingMode.FAIR()) ? new RuleRoot(() -> 4, new HeldJobs(() -> { }, () -> 0))
        : new Pool(name, mode, minShare, weight);
  }

  @Override
  public byte[] transform(ClassLoader loader, String type, Class<?> old, ProtectionDomain domain,
      byte[] bytes) {
    boolean scheduler = (SPARK + "TaskSchedulerImpl").equals(type);
    boolean pools = type != null
        && (type.equals(SPARK + "FairSchedulableBuilder") || type.startsWith(SPARK + "PoolSuite"));
    if (!scheduler && !pools) {
      return null;
    }
    try {
      return transformed(bytes, scheduler);
    } catch (Throwable failure) { // which the JVM would not tell
      failure.printStackTrace();
      throw failure;
    }
  }

  private static byte[] transformed(byte[] bytes, boolean scheduler) {
    ClassReader reader = new ClassReader(bytes);
    ClassWriter writer = new ClassWriter(reader, ClassWriter.COMPUTE_MAXS);
    reader.accept(new ClassVisitor(Opcodes.ASM9, writer) {
      @Override
      public MethodVisitor visitMethod(
          int access, String name, String shape, String generics, String[] throwing) {
        MethodVisitor next = super.visitMethod(access, name, shape, generics, throwing);
        return scheduler ? new Called(next, name, shape) : new Replaced(next);
      }
    }, 0);
    return writer.toByteArray();
  }

  /** Makes a scheduler call this class. */
  private static final class Called extends MethodVisitor {
    private static final String ITSELF = "(L" + SPARK + "TaskSchedulerImpl;";
    private final boolean initializes;
    private final boolean submits;

    Called(MethodVisitor next, String name, String shape) {
      super(Opcodes.ASM9, next);
      initializes = name.equals("initialize") && shape.endsWith(")V");
      submits = name.equals("submitTasks");
    }

    @Override
    public void visitCode() {
      super.visitCode();
      if (submits) {
        super.visitVarInsn(Opcodes.ALOAD, 0);
        super.visitVarInsn(Opcodes.ALOAD, 1);
        super.visitMethodInsn(Opcodes.INVOKESTATIC, ME, "submitting",
            ITSELF + "L" + SPARK + "TaskSet;)V", false);
      }
    }

    @Override
    public void visitInsn(int code) {
      if (initializes && code == Opcodes.RETURN) {
        super.visitVarInsn(Opcodes.ALOAD, 0);
        super.visitMethodInsn(Opcodes.INVOKESTATIC, ME, "initialized", ITSELF + ")V", false);
      }
      super.visitInsn(code);
    }
  }

  /** Calls this class instead of the constructor of pools. */
  private static final class Replaced extends MethodVisitor {
    private boolean dropping;

    Replaced(MethodVisitor next) {
      super(Opcodes.ASM9, next);
    }

    @Override
    public void visitTypeInsn(int code, String type) {
      dropping = code == Opcodes.NEW && type.equals(SPARK + "Pool");
      if (!dropping) {
        super.visitTypeInsn(code, type);
      }
    }

    @Override
    public void visitInsn(int code) {
      if (dropping && code == Opcodes.DUP) {
        dropping = false;
      } else {
        super.visitInsn(code);
      }
    }

    @Override
    public void visitMethodInsn(int code, String type, String name, String shape, boolean face) {
      if (code == Opcodes.INVOKESPECIAL && type.equals(SPARK + "Pool") && name.equals("<init>")) {
        super.visitMethodInsn(Opcodes.INVOKESTATIC, ME, "pool",
            shape.replace(")V", ")L" + SPARK + "Pool;"), false);
      } else {
        super.visitMethodInsn(code, type, name, shape, face);
      }
    }
  }
}
