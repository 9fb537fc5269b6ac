import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;

/** HDFS with one data node in the folder that is named, until there is a line to read. */
public class MiniHdfs {
  public static void main(String[] arguments) throws Exception {
    Configuration conf = new Configuration();
    conf.set("hadoop.http.staticuser.user", System.getProperty("user.name"));
    conf.set("hdfs.minidfs.basedir", arguments[0]);
    MiniDFSCluster cluster = new MiniDFSCluster.Builder(conf).numDataNodes(1).build();
    cluster.waitActive();
    int port = cluster.getNameNode().getHttpAddress().getPort();
    System.out.println("WebHDFS at localhost:" + port);
    System.in.read();
    cluster.shutdown();
    System.exit(0);
  }
}
