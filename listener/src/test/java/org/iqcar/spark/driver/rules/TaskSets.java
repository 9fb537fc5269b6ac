package org.iqcar.spark.driver.rules;

import java.lang.reflect.Field;
import java.util.Properties;
import org.apache.spark.scheduler.PendingTasksByLocality;
import org.apache.spark.scheduler.Task;
import org.apache.spark.scheduler.TaskSet;
import org.apache.spark.scheduler.TaskSetManager;
import org.iqcar.spark.safety.SparkInternals;
import scala.collection.mutable.HashSet;

/** Makes Spark's own task sets without a scheduler: one task waits in each. */
final class TaskSets {
  private TaskSets() {}

  static TaskSetManager of(int job, Properties properties) throws ReflectiveOperationException {
    Class<?> unsafe = Class.forName("sun.misc.Unsafe");
    Field only = unsafe.getDeclaredField("theUnsafe");
    only.setAccessible(true);
    TaskSetManager made = (TaskSetManager) unsafe.getMethod("allocateInstance", Class.class)
        .invoke(only.get(null), TaskSetManager.class);
    SparkInternals.field(made, "name").set(made, "TaskSet of job " + job);
    SparkInternals.field(made, "priority").set(made, job);
    PendingTasksByLocality waiting = new PendingTasksByLocality();
    waiting.all().$plus$eq(0);
    SparkInternals.field(made, "pendingTasks").set(made, waiting);
    SparkInternals.field(made, "runningTasksSet").set(made, new HashSet<Object>());
    SparkInternals.field(made, "taskSetExcludelistHelperOpt").set(made, scala.Option.empty());
    SparkInternals.field(made, "taskSet").set(
        made, new TaskSet(new Task<?>[0], job, 0, job, properties, 0, scala.Option.empty()));
    return made;
  }
}
