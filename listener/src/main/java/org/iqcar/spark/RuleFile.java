package org.iqcar.spark;

import java.io.ByteArrayOutputStream;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.InterruptedIOException;
import java.lang.reflect.InvocationTargetException;
import java.net.URI;
import java.nio.file.Paths;
import java.util.regex.Pattern;

/** Opens a local path, or a URL of any file system that Hadoop knows. */
final class RuleFile {
  private static final Pattern URL = Pattern.compile("[A-Za-z][A-Za-z0-9+.-]+:/.*");

  private RuleFile() {}

  /**
   * Reads a whole file.
   *
   * @param hadoop Spark's Hadoop configuration
   * @throws IOException if it cannot be read or is larger than {@code most} bytes
   */
  static byte[] read(String path, Object hadoop, int most) throws IOException {
    try (InputStream in = open(path, hadoop)) {
      ByteArrayOutputStream out = new ByteArrayOutputStream();
      byte[] buffer = new byte[65_536];
      for (int n = in.read(buffer); n >= 0; n = in.read(buffer)) {
        out.write(buffer, 0, n);
        if (out.size() > most) {
          throw new IOException("larger than " + most + " bytes");
        }
      }
      return out.toByteArray();
    }
  }

  private static InputStream open(String path, Object hadoop) throws IOException {
    if (!URL.matcher(path).matches()) {
      return new FileInputStream(path);
    }
    if (path.startsWith("file:")) {
      try {
        return new FileInputStream(Paths.get(URI.create(path)).toFile());
      } catch (IllegalArgumentException e) {
        throw new IOException("no file URL: " + e.getMessage(), e);
      }
    }
    return openByHadoop(path, hadoop);
  }

  /** By reflection: the plugin is built without Hadoop's jars. */
  static InputStream openByHadoop(String path, Object hadoop) throws IOException {
    try {
      ClassLoader loader = hadoop.getClass().getClassLoader();
      Class<?> type = Class.forName("org.apache.hadoop.fs.Path", true, loader);
      Class<?> conf = Class.forName("org.apache.hadoop.conf.Configuration", true, loader);
      Object file = type.getConstructor(String.class).newInstance(path);
      Object system = type.getMethod("getFileSystem", conf).invoke(file, hadoop);
      return (InputStream) system.getClass().getMethod("open", type).invoke(system, file);
    } catch (InvocationTargetException e) {
      Throwable cause = e.getCause();
      if (cause instanceof InterruptedIOException) {
        throw (InterruptedIOException) cause;
      }
      throw new IOException(String.valueOf(cause.getMessage()), cause);
    } catch (ReflectiveOperationException e) {
      throw new IOException(e.toString(), e);
    }
  }
}
