package org.iqcar.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.jar.JarFile;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** Checks that every class and member that the jar uses exists in the jars of every Spark. */
class LinkTest {
  private static final Path TARGET = Paths.get("target");
  /** References to Spark and Scala that this jar has at least. */
  private static final int LEAST_REFERENCES = 50;

  private final Map<String, ClassFile> cache = new HashMap<>();

  static List<Path> sparks() throws IOException {
    try (Stream<Path> folders = Files.list(TARGET.resolve("link"))) {
      return folders.sorted().collect(Collectors.toList());
    }
  }

  @ParameterizedTest
  @MethodSource("sparks")
  void everyReferenceToSparkAndScalaExists(Path spark) throws IOException {
    List<JarFile> jars = open(spark);
    Set<String> missing = new TreeSet<>();
    int checked = 0;
    for (ClassFile ours : ours()) {
      for (String type : ours.types) {
        if (theirs(type) && find(type, jars) == null) {
          missing.add(type);
        }
      }
      for (ClassFile.Reference reference : ours.references) {
        if (theirs(reference.type)) {
          checked++;
          if (!exists(reference.type, reference.member, jars)) {
            missing.add(reference.toString());
          }
        }
      }
    }
    assertEquals(Collections.emptySet(), missing, () -> "missing in " + spark);
    assertTrue(checked >= LEAST_REFERENCES, "checked only " + checked + " references");
  }

  @ParameterizedTest
  @MethodSource("sparks")
  void everyAbstractMethodOfSparkIsImplemented(Path spark) throws IOException {
    List<JarFile> jars = open(spark);
    Set<String> missing = new TreeSet<>();
    for (ClassFile ours : ours()) {
      if (!ours.isAbstract) {
        Set<String> abstracts = new LinkedHashSet<>();
        Set<String> concrete = new LinkedHashSet<>(ours.members.keySet());
        for (String above : above(ours, jars)) {
          ClassFile type = find(above, jars);
          type.members.forEach((member, open) -> (open ? abstracts : concrete).add(member));
        }
        abstracts.removeAll(concrete);
        for (String member : abstracts) {
          missing.add(ours.name + " lacks " + member);
        }
      }
    }
    assertEquals(Collections.emptySet(), missing, () -> "not implemented for " + spark);
  }

  @Test
  void aMemberThatOneSparkLacksIsFound() throws IOException {
    // These return a Seq, whose package differs between Scala 2.12 and 2.13.
    String member = "stageInfos()Lscala/collection/Seq;";
    String type = "org/apache/spark/scheduler/SparkListenerJobStart";
    for (Path spark : sparks()) {
      assertEquals(spark.endsWith("spark-3.5"), exists(type, member, open(spark)));
      cache.clear();
    }
  }

  @Test
  void noReferenceReturnsOrTakesASequence() throws IOException {
    for (ClassFile ours : ours()) {
      for (ClassFile.Reference reference : ours.references) {
        assertFalse(theirs(reference.type) && reference.member.contains("collection/Seq;"),
            reference.toString());
      }
    }
  }

  private static boolean theirs(String type) {
    return type.startsWith("org/apache/spark/") || type.startsWith("scala/");
  }

  private static List<ClassFile> ours() throws IOException {
    List<ClassFile> found = new ArrayList<>();
    try (Stream<Path> files = Files.walk(TARGET.resolve("classes"))) {
      for (Path file : (Iterable<Path>) files.filter(f -> f.toString().endsWith(".class"))::iterator) {
        try (InputStream in = Files.newInputStream(file)) {
          found.add(new ClassFile(in));
        }
      }
    }
    return found;
  }

  private List<JarFile> open(Path folder) throws IOException {
    List<JarFile> jars = new ArrayList<>();
    try (Stream<Path> files = Files.list(folder)) {
      for (Path jar : (Iterable<Path>) files::iterator) {
        jars.add(new JarFile(jar.toFile()));
      }
    }
    return jars;
  }

  private ClassFile find(String type, List<JarFile> jars) throws IOException {
    String key = type;
    if (!cache.containsKey(key)) {
      ClassFile found = null;
      for (JarFile jar : jars) {
        if (found == null && jar.getEntry(type + ".class") != null) {
          try (InputStream in = jar.getInputStream(jar.getEntry(type + ".class"))) {
            found = new ClassFile(in);
          }
        }
      }
      cache.put(key, found);
    }
    return cache.get(key);
  }

  private boolean exists(String type, String member, List<JarFile> jars) throws IOException {
    ClassFile file = find(type, jars);
    if (file == null) {
      // java.* and other libraries' classes above Spark's are not under test.
      return !theirs(type) && inJava(type, member);
    }
    if (file.members.containsKey(member)) {
      return true;
    }
    for (String above : file.interfaces) {
      if (exists(above, member, jars)) {
        return true;
      }
    }
    return file.parent != null && exists(file.parent, member, jars);
  }

  private static boolean inJava(String type, String member) {
    try (InputStream in = ClassLoader.getSystemResourceAsStream(type + ".class")) {
      if (in == null) {
        return false;
      }
      ClassFile file = new ClassFile(in);
      boolean above = file.parent != null && inJava(file.parent, member);
      return above || file.members.containsKey(member);
    } catch (IOException e) {
      return false;
    }
  }

  private Set<String> above(ClassFile file, List<JarFile> jars) throws IOException {
    Set<String> names = new LinkedHashSet<>();
    List<String> direct = new ArrayList<>(file.interfaces);
    if (file.parent != null) {
      direct.add(file.parent);
    }
    for (String name : direct) {
      ClassFile type = find(name, jars);
      if (type != null && theirs(name)) {
        names.add(name);
        names.addAll(above(type, jars));
      }
    }
    return names;
  }
}
