package org.iqcar.spark.driver.queries;

import java.util.ArrayList;
import java.util.List;
import org.iqcar.spark.safety.SparkInternals;

/** A node of a physical plan, with the fields of {@code SparkPlanInfo} in the event log. */
public final class PlanNode {
  /** The operator's name; empty for a plan that Spark does not describe. */
  public final String name;
  final String text;
  final List<PlanNode> children;

  PlanNode(String name, String text, List<PlanNode> children) {
    this.name = name;
    this.text = text;
    this.children = children;
  }

  /** Copies Spark's tree by reflection, because an application may lack Spark SQL. */
  public static PlanNode fromSpark(Object sparkPlanInfo) throws ReflectiveOperationException {
    List<PlanNode> children = new ArrayList<>();
    for (Object child : SparkInternals.sequence(sparkPlanInfo, "children")) {
      children.add(fromSpark(child));
    }
    return new PlanNode((String) SparkInternals.call(sparkPlanInfo, "nodeName"),
        (String) SparkInternals.call(sparkPlanInfo, "simpleString"), children);
  }
}
