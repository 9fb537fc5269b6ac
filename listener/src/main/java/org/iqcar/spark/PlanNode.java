package org.iqcar.spark;

import java.util.ArrayList;
import java.util.List;

/** A node of a physical plan, as {@code SparkPlanInfo} in the event log holds it. */
final class PlanNode {
  final String name;
  final String text;
  final List<PlanNode> children;

  PlanNode(String name, String text, List<PlanNode> children) {
    this.name = name;
    this.text = text;
    this.children = children;
  }

  /** Copies Spark's tree; by reflection, because an application may be without Spark SQL. */
  static PlanNode of(Object sparkPlanInfo) throws ReflectiveOperationException {
    List<PlanNode> children = new ArrayList<>();
    for (Object child : Private.sequence(sparkPlanInfo, "children")) {
      children.add(of(child));
    }
    return new PlanNode((String) Private.call(sparkPlanInfo, "nodeName"),
        (String) Private.call(sparkPlanInfo, "simpleString"), children);
  }
}
