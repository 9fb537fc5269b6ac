package org.iqcar.spark.driver.rules;

import org.iqcar.spark.text.Printable;

/** Thrown for rules that cannot be applied: where, what is wrong, and what to do. */
public final class RulesRefused extends RuntimeException {
  private static final long serialVersionUID = 1L;

  private final String reason;

  RulesRefused(String where, String what, String toDo) {
    this(String.format("%s: %s; %s", Printable.line(where), Printable.line(what), toDo));
  }

  private RulesRefused(String reason) {
    super("iqcar: no rules are applied: " + reason);
    this.reason = reason;
  }

  /** Where, what and what to do, without what follows from it. */
  String reason() {
    return reason;
  }
}
