package org.iqcar.spark;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.lang.management.ManagementFactory;
import java.util.Map;
import java.util.TreeMap;
import javax.management.MBeanServer;
import javax.management.ObjectName;

/** Reads the plugin's metrics in the JVM's register of beans: Python cannot call that. */
public final class Beans {
  private Beans() {}

  /** Values by name, as JSON; what is no number is text. */
  public static String read() throws Exception {
    MBeanServer server = ManagementFactory.getPlatformMBeanServer();
    Map<String, Object> found = new TreeMap<>();
    for (ObjectName name : server.queryNames(
        new ObjectName("metrics:name=*plugin.org.iqcar.*,*"), null)) {
      found.put(name.getKeyProperty("name"), server.getAttribute(name, "Value"));
    }
    return new ObjectMapper().writeValueAsString(found);
  }
}
