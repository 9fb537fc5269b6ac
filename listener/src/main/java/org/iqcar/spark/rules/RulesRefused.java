package org.iqcar.spark.rules;

import org.iqcar.spark.text.Printable;

/** Thrown for rules that cannot be applied: where, what is wrong, and what to do. */
public final class RulesRefused extends RuntimeException {
  private static final long serialVersionUID = 1L;

  RulesRefused(String where, String what, String toDo) {
    super(String.format("iqcar: no rules are applied: %s: %s; %s",
        Printable.line(where), Printable.line(what), toDo));
  }
}
