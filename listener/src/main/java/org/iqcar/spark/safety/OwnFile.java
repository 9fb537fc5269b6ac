package org.iqcar.spark.safety;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;

/** Refuses files that others than the user of this process, and root, have power over. */
public final class OwnFile {
  /** Mode that lets anybody outside of the file's group write. */
  public static final int BY_ANYBODY = 0002;
  /** Mode that lets anybody but the owner read, write or execute. */
  public static final int BY_OTHERS = 0077;

  /** Belongs to this process's user. */
  private static final Path SELF = Paths.get("/proc/self");

  private OwnFile() {}

  /**
   * Throws if a file belongs neither to this user nor to root, or has one of some bits in its mode.
   * Where the system does not tell these, the file passes.
   */
  public static void check(Path file, int refused) throws IOException {
    if (!file.getFileSystem().supportedFileAttributeViews().contains("unix")) {
      return;
    }
    int user = Files.exists(SELF) ? uid(SELF) : uid(file);
    check(file, refused, user);
  }

  static void check(Path file, int refused, int user) throws IOException {
    int owner = uid(file);
    if (owner != 0 && owner != user) {
      throw new IOException(
          file + " belongs to user " + owner + ", neither to user " + user + " nor to root");
    }
    int mode = (Integer) Files.getAttribute(file, "unix:mode") & 0777;
    if ((mode & refused) != 0) {
      throw new IOException(String.format(
          "others have power over %s: change its mode from %03o to %03o", file, mode, mode & ~refused));
    }
  }

  private static int uid(Path file) throws IOException {
    return (Integer) Files.getAttribute(file, "unix:uid");
  }
}
