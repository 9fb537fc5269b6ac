package org.iqcar.spark.rules;

import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.InterruptedIOException;
import java.lang.reflect.InvocationTargetException;
import java.net.URI;
import java.nio.file.Paths;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.regex.Pattern;

/** Reads a file from a local path or from a URL of any file system that Hadoop supports. */
final class RuleFile {
  private static final Pattern URL = Pattern.compile("[A-Za-z][A-Za-z0-9+.-]+:/.*");
  /** A remote file system takes seconds; one that does not answer must not block the job. */
  private static final int MOST_SECONDS = 30;

  private RuleFile() {}

  /**
   * Reads a whole file.
   *
   * @param hadoop Spark's Hadoop configuration
   * @throws IOException if it cannot be read within {@link #MOST_SECONDS} s or is larger than
   *     {@code most} bytes
   */
  static byte[] read(String path, Object hadoop, int most) throws IOException {
    return within(MOST_SECONDS, () -> readNow(path, hadoop, most));
  }

  /** Runs an action in a thread of its own, which is abandoned if it takes longer. */
  static byte[] within(int seconds, Callable<byte[]> action) throws IOException {
    FutureTask<byte[]> reading = new FutureTask<>(action);
    Thread thread = new Thread(reading, "iqcar-rules");
    thread.setDaemon(true);
    thread.start();
    try {
      return reading.get(seconds, TimeUnit.SECONDS);
    } catch (TimeoutException e) {
      thread.interrupt();
      throw new IOException("no answer within " + seconds + " s", e);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new InterruptedIOException();
    } catch (ExecutionException e) {
      throw new IOException(e.getCause().getMessage(), e.getCause());
    }
  }

  private static byte[] readNow(String path, Object hadoop, int most) throws IOException {
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
      return openLocal(new File(path));
    }
    if (path.startsWith("file:")) {
      try {
        return openLocal(Paths.get(URI.create(path)).toFile());
      } catch (IllegalArgumentException e) {
        throw new IOException("no file URL: " + e.getMessage(), e);
      }
    }
    return openByHadoop(path, hadoop);
  }

  private static InputStream openLocal(File file) throws IOException {
    if (file.exists() && !file.isFile()) {
      // Opening a pipe would block until another process writes to it.
      throw new IOException(file + " is no regular file");
    }
    return new FileInputStream(file);
  }

  /** Opens a file by Hadoop, by reflection: the plugin is built without Hadoop's jars. */
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
