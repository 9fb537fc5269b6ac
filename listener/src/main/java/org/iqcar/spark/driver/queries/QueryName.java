package org.iqcar.spark.driver.queries;

import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.iqcar.spark.text.PyRegex;
import org.iqcar.spark.text.Secrets;

/**
 * Derives a query's name and fingerprint from descriptions, job groups and call sites, as the
 * analyzer does (analyzer/iqcar/logs/events/settings.py and
 * analyzer/iqcar/model/queries/identify.py).
 */
final class QueryName {
  /** Most characters of a name in a fingerprint; a longer name is hashed. */
  private static final int NAME_IN_FINGERPRINT = 120;
  private static final String STREAM_WITHOUT_NAME = "streaming query";

  private static final Pattern CALL_SITE = PyRegex.compile("[^%S]++ at [^%S]%.*:-?%d++%$");
  private static final Pattern KEYWORD = PyRegex.compile("(?iu)(?:select|with|insert|merge|update"
      + "|delete|create|drop|alter|show|describe|explain|refresh|cache|analyze|truncate|use|set|from"
      + "|values|optimize|vacuum)%s");
  private static final Pattern STREAM = PyRegex.compile(
      "(?s)(.*?)(?:<br/>|\\n)?id = [0-9a-f\\-]{36}(?:<br/>|\\n)runId = [0-9a-f\\-]{36}"
          + "(?:<br/>|\\n)batch = ");
  private static final String TAG = "SparkConnect_OperationTag_";
  private static final String USER = "User_";
  private static final Pattern OF_TAG = Pattern.compile("_Operation_([0-9A-Fa-f\\-]{36})");
  private static final Pattern OF_USER =
      Pattern.compile("_Session_[0-9A-Fa-f\\-]{36}_Request_([0-9A-Fa-f\\-]{36})");
  private static final String SESSION_TAG = "SparkConnect_SessionTag_";
  private static final Pattern OF_SESSION_TAG =
      Pattern.compile("_Session_[0-9A-Fa-f\\-]{36}_Tag_(.+)", Pattern.DOTALL);
  private static final String CONNECTS_OWN = "Spark Connect - ";
  private static final String BROADCAST = "broadcast exchange (runId ";
  private static final Pattern UUID =
      Pattern.compile("[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}");

  private QueryName() {}

  /**
   * A description without secrets; of a stream's batch, only the stream's name; empty if it is Spark
   * Connect's own.
   */
  static String clean(String description) {
    if (isConnectsOwn(description)) {
      return "";
    }
    if (description != null) {
      Matcher stream = STREAM.matcher(description);
      if (stream.lookingAt()) {
        String name = Secrets.redact(stream.group(1), Secrets.MAX_TEXT);
        return name.isEmpty() ? STREAM_WITHOUT_NAME : name;
      }
    }
    return Secrets.redact(description, Secrets.MAX_TEXT);
  }

  /**
   * Whether Spark Connect made this description or name of a stage: it holds ids of a request, which
   * recur in other queries and not in the next run of the same query.
   */
  static boolean isConnectsOwn(String text) {
    return text != null && text.startsWith(CONNECTS_OWN);
  }

  /** Whether Spark describes a broadcast's job, whatever the user's description is. */
  static boolean isBroadcast(String description) {
    return description.startsWith(BROADCAST);
  }

  /** Whether a user gave this description: it is neither a call site nor a statement's text. */
  static boolean isUsers(String description) {
    return !description.isEmpty() && !description.equals(STREAM_WITHOUT_NAME)
        && !CALL_SITE.matcher(description).lookingAt()
        && !isStatement(description);
  }

  /** Whether a text begins with SQL, after blanks, comments and opening brackets. */
  private static boolean isStatement(String text) {
    int at = PyRegex.behindBlanks(text, 0);
    while (at < text.length()) {
      if (text.startsWith("/*", at)) {
        int end = text.indexOf("*/", at + 2);
        if (end < 0) {
          return false;
        }
        at = PyRegex.behindBlanks(text, end + 2);
      } else if (text.startsWith("--", at)) {
        int end = text.indexOf('\n', at);
        if (end < 0) {
          return false;
        }
        at = PyRegex.behindBlanks(text, end + 1);
      } else if (text.charAt(at) == '(') {
        at++;
      } else {
        return KEYWORD.matcher(text).region(at, text.length()).lookingAt();
      }
    }
    return false;
  }

  /** The Spark Connect operation that a job's tags or group name; empty if none. */
  static String connectOperation(String group, String tags) {
    for (String text : new String[] {tags, group}) {
      if (text != null) {
        for (String line : text.split("\n")) {
          int tag = line.indexOf(TAG);
          int user = line.indexOf(USER);
          Matcher ofTag = OF_TAG.matcher(line);
          Matcher ofUser = OF_USER.matcher(line);
          boolean isTag = tag >= 0 && ofTag.find(tag + TAG.length());
          if (user >= 0 && ofUser.find(user + USER.length()) && !(isTag && tag < user)) {
            return ofUser.group(1);
          }
          if (isTag) {
            return ofTag.group(1);
          }
        }
      }
    }
    return "";
  }

  /** The tags that a Spark Connect client gave a job, with commas; empty if none. */
  static String connectTags(String tags) {
    Set<String> found = new TreeSet<>();
    if (tags != null && tags.contains(SESSION_TAG)) {
      for (String text : tags.split("[,\n]")) {
        int start = text.indexOf(SESSION_TAG);
        Matcher tag = OF_SESSION_TAG.matcher(text);
        if (start >= 0 && tag.find(start + SESSION_TAG.length())) {
          found.add(Secrets.redact(tag.group(1), Secrets.MAX_TEXT));
        }
      }
    }
    return String.join(", ", found);
  }

  /** Whether a text contains a UUID, which differs from run to run. */
  static boolean hasUuid(String text) {
    return UUID.matcher(text).find();
  }

  /** A fingerprint of the given kind, made of a text without what differs between runs. */
  static String fingerprint(String kind, String text) {
    String plain = NameFamily.of(text);
    return PyRegex.length(plain) <= NAME_IN_FINGERPRINT
        ? kind + ":" + plain : kind + "-sha256:" + PlanFingerprint.sha256(plain);
  }

  /**
   * Fingerprint of a job that is known only by the call sites of the stages it runs; empty where
   * Spark Connect named all stages, or where there are none and {@code isConnect}.
   */
  static String ofCallSites(List<String> stageNames, String group, boolean isConnect) {
    Set<String> names = new TreeSet<>();
    for (String name : stageNames) {
      if (!isConnectsOwn(name)) {
        names.add(Secrets.redact(name, Secrets.MAX_NAME));
      }
    }
    if (names.isEmpty() && (isConnect || !stageNames.isEmpty())) {
      return "";
    }
    return fingerprint("call", names.isEmpty() ? group : String.join(" / ", names));
  }
}
