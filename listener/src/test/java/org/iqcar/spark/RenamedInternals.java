package org.iqcar.spark;

import java.lang.instrument.ClassFileTransformer;
import java.lang.instrument.Instrumentation;
import java.nio.charset.StandardCharsets;
import java.security.ProtectionDomain;
import org.apache.xbean.asm9.ClassReader;
import org.apache.xbean.asm9.ClassWriter;
import org.apache.xbean.asm9.commons.ClassRemapper;
import org.apache.xbean.asm9.commons.Remapper;

/**
 * A Java agent that renames members in all of Spark's classes, as another version of Spark might:
 * Spark works as before, and who knows the old names finds nothing.
 *
 * <p>Its argument: names separated by commas. One with a parenthesis is followed by the beginning
 * of what the method takes, for names that Spark has more than once.
 */
public final class RenamedInternals implements ClassFileTransformer {
  private static final String SPARK = "org/apache/spark/";

  private final String[] names;

  private RenamedInternals(String[] names) {
    this.names = names;
  }

  public static void premain(String names, Instrumentation jvm) {
    jvm.addTransformer(new RenamedInternals(names.split(",")));
  }

  @Override
  public byte[] transform(ClassLoader loader, String type, Class<?> old, ProtectionDomain domain,
      byte[] bytes) {
    if (type == null || !type.startsWith(SPARK) || !holdsAny(bytes)) {
      return null;
    }
    ClassWriter writer = new ClassWriter(0);
    new ClassReader(bytes).accept(new ClassRemapper(writer, new Remapper() {
      @Override
      public String mapMethodName(String owner, String name, String shape) {
        return renamed(owner, name, shape);
      }

      @Override
      public String mapFieldName(String owner, String name, String shape) {
        return renamed(owner, name, "");
      }
    }), 0);
    return writer.toByteArray();
  }

  private boolean holdsAny(byte[] bytes) {
    String text = new String(bytes, StandardCharsets.ISO_8859_1);
    for (String name : names) {
      if (text.contains(name.replaceAll("[(].*", ""))) {
        return true;
      }
    }
    return false;
  }

  private String renamed(String owner, String name, String shape) {
    for (String wanted : names) {
      boolean same = wanted.contains("(") ? (name + shape).startsWith(wanted)
          : name.equals(wanted) || name.equals(wanted + "_$eq") || name.endsWith("$$" + wanted)
              || name.endsWith("$$" + wanted + "_$eq");
      if (same && owner.startsWith(SPARK)) {
        return name.replace(wanted.replaceAll("[(].*", ""), "renamed");
      }
    }
    return name;
  }
}
