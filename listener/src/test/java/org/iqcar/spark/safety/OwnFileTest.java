package org.iqcar.spark.safety;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class OwnFileTest {
  @TempDir
  Path folder;
  private Path file;

  @BeforeEach
  void makeOne() throws IOException {
    file = Files.createFile(folder.resolve("file"));
  }

  private void mode(String mode) throws IOException {
    Files.setPosixFilePermissions(file, PosixFilePermissions.fromString(mode));
  }

  @Test
  void aFileThatOthersHavePowerOverIsRefused() throws IOException {
    mode("rw-rw-r--");
    OwnFile.check(file, OwnFile.BY_ANYBODY);
    IOException read = assertThrows(IOException.class, () -> OwnFile.check(file, OwnFile.BY_OTHERS));
    assertEquals("others have power over " + file + ": change its mode from 664 to 600",
        read.getMessage());
    mode("rw-rw-rw-");
    assertThrows(IOException.class, () -> OwnFile.check(file, OwnFile.BY_ANYBODY));
    mode("r--------");
    OwnFile.check(file, OwnFile.BY_OTHERS);
  }

  @Test
  void aFileOfSomebodyElseIsRefused() throws IOException {
    try {
      Files.setAttribute(file, "unix:uid", 4711);
    } catch (IOException notRoot) {
      // Then it is not root's, and that is what counts.
    }
    int owner = (Integer) Files.getAttribute(file, "unix:uid");
    OwnFile.check(file, 0, owner);
    assertThrows(IOException.class, () -> OwnFile.check(file, 0, owner + 1));
  }

  @Test
  void aFileOfThisProcessOrOfRootIsTrusted() throws IOException {
    OwnFile.check(file, 0);
    Path roots = folder.getRoot();
    assertEquals(0, Files.getAttribute(roots, "unix:uid"));
    OwnFile.check(roots, 0, 4711);
  }
}
