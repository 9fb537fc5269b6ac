package org.iqcar.spark.rules;

import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.FileInputStream;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.io.InterruptedIOException;
import java.lang.reflect.InvocationTargetException;
import java.math.BigInteger;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.InvalidPathException;
import java.nio.file.NoSuchFileException;
import java.nio.file.Paths;
import java.nio.file.attribute.BasicFileAttributes;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Arrays;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.regex.Pattern;
import org.iqcar.spark.safety.OwnFile;
import org.iqcar.spark.safety.OwnThread;

/** Reads a file from a local path or from a URL of any file system that Hadoop supports. */
final class RuleFile {
  private static final Pattern URL = Pattern.compile("[A-Za-z][A-Za-z0-9+.-]+:/.*");
  /** A remote file system takes seconds; one that does not answer must not block the job. */
  static final int MOST_SECONDS = 30;

  private RuleFile() {}

  /**
   * Reads a whole file.
   *
   * @param hadoop Spark's Hadoop configuration
   * @throws IOException if it cannot be read within {@link #MOST_SECONDS} s or is larger than
   *     {@code most} bytes
   */
  static byte[] read(String path, Object hadoop, int most) throws IOException {
    return within(MOST_SECONDS, () -> {
      if (stamp(path, hadoop) == null) {
        throw new NoSuchFileException(path, null, "No such file or directory");
      }
      return readNow(path, hadoop, most);
    });
  }

  /**
   * What changes when a file does: time, size and, if local, its inode; null without a file, empty
   * where the file system tells no time.
   *
   * @throws IOException also if it is local and somebody else's, or anybody can write it
   */
  static String stamp(String path, Object hadoop) throws IOException {
    File local = local(path);
    if (local != null) {
      try {
        BasicFileAttributes file = Files.readAttributes(local.toPath(), BasicFileAttributes.class);
        // A team shares a file by its group, and many systems make new files writable by it.
        OwnFile.check(local.toPath(), OwnFile.BY_ANYBODY);
        return file.lastModifiedTime().to(TimeUnit.NANOSECONDS) + " " + file.size() + " "
            + file.fileKey();
      } catch (NoSuchFileException gone) {
        return null;
      } catch (InvalidPathException e) {
        throw new IOException(e.getMessage(), e);
      }
    }
    try {
      Object status = byHadoop("getFileStatus", path, hadoop);
      // The object's own class may be hidden, and then its methods cannot be called.
      Class<?> type = Class.forName(
          "org.apache.hadoop.fs.FileStatus", true, status.getClass().getClassLoader());
      long time = (Long) type.getMethod("getModificationTime").invoke(status);
      return time <= 0 ? "" : time + " " + type.getMethod("getLen").invoke(status);
    } catch (FileNotFoundException gone) {
      return null;
    } catch (ReflectiveOperationException e) {
      throw new IOException(e.toString(), e);
    }
  }

  /** The first half of the content's SHA-256 in hexadecimal. */
  static String hash(byte[] content) {
    try {
      byte[] digest = MessageDigest.getInstance("SHA-256").digest(content);
      return String.format("%032x", new BigInteger(1, Arrays.copyOf(digest, 16)));
    } catch (NoSuchAlgorithmException e) {
      throw new IllegalStateException(e);
    }
  }

  /** Runs an action in a thread of its own, which is abandoned if it takes longer. */
  static byte[] within(int seconds, Callable<byte[]> action) throws IOException {
    FutureTask<byte[]> reading = new FutureTask<>(action);
    Thread thread = OwnThread.of("iqcar-rules", reading);
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

  /** Reads a whole file in this thread; as for {@link #read}, without a limit of time. */
  static byte[] readNow(String path, Object hadoop, int most) throws IOException {
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
    File local = local(path);
    return local != null ? openLocal(local) : (InputStream) byHadoop("open", path, hadoop);
  }

  /** The local file that a path or URL names; null if it names none. */
  private static File local(String path) throws IOException {
    if (!URL.matcher(path).matches()) {
      return new File(path);
    }
    if (path.startsWith("file:")) {
      try {
        return Paths.get(URI.create(path)).toFile();
      } catch (IllegalArgumentException e) {
        throw new IOException("no file URL: " + e.getMessage(), e);
      }
    }
    return null;
  }

  private static InputStream openLocal(File file) throws IOException {
    if (file.exists() && !file.isFile()) {
      // Opening a pipe would block until another process writes to it.
      throw new IOException(file + " is no regular file");
    }
    return new FileInputStream(file);
  }

  /** Calls a file system of Hadoop by reflection: the plugin is built without Hadoop's jars. */
  private static Object byHadoop(String method, String path, Object hadoop) throws IOException {
    try {
      ClassLoader loader = hadoop.getClass().getClassLoader();
      Class<?> type = Class.forName("org.apache.hadoop.fs.Path", true, loader);
      Class<?> conf = Class.forName("org.apache.hadoop.conf.Configuration", true, loader);
      Object file = type.getConstructor(String.class).newInstance(path);
      Object system = type.getMethod("getFileSystem", conf).invoke(file, hadoop);
      return Class.forName("org.apache.hadoop.fs.FileSystem", true, loader)
          .getMethod(method, type).invoke(system, file);
    } catch (InvocationTargetException e) {
      Throwable cause = e.getCause();
      if (cause instanceof InterruptedIOException) {
        throw (InterruptedIOException) cause;
      }
      if (cause instanceof FileNotFoundException) {
        throw (FileNotFoundException) cause;
      }
      throw new IOException(String.valueOf(cause.getMessage()), cause);
    } catch (ReflectiveOperationException e) {
      throw new IOException(e.toString(), e);
    }
  }
}
