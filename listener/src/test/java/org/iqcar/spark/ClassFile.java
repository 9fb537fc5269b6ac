package org.iqcar.spark;

import java.io.DataInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Parses of a class file what linking needs: its names, its members and its references. */
final class ClassFile {
  private static final int ABSTRACT = 0x0400;
  private static final int STATIC = 0x0008;

  /** A member of another class that this one uses. */
  static final class Reference {
    final String type;
    final String member;

    Reference(String type, String member) {
      this.type = type;
      this.member = member;
    }

    @Override
    public String toString() {
      return type + "." + member;
    }
  }

  final String name;
  final String parent;
  final boolean isAbstract;
  final List<String> interfaces = new ArrayList<>();
  /** Name and descriptor of each member, and whether it still has to be implemented. */
  final Map<String, Boolean> members = new LinkedHashMap<>();
  final List<Reference> references = new ArrayList<>();
  final List<String> types = new ArrayList<>();

  private final String[] texts;
  private final int[] first;
  private final int[] second;

  ClassFile(InputStream stream) throws IOException {
    DataInputStream in = new DataInputStream(stream);
    if (in.readInt() != 0xCAFEBABE) {
      throw new IOException("not a class file");
    }
    in.readInt();
    int count = in.readUnsignedShort();
    texts = new String[count];
    first = new int[count];
    second = new int[count];
    int[] tags = readPool(in, count);
    isAbstract = (in.readUnsignedShort() & ABSTRACT) != 0;
    name = type(in.readUnsignedShort());
    int parentIndex = in.readUnsignedShort();
    parent = parentIndex == 0 ? null : type(parentIndex);
    for (int n = in.readUnsignedShort(); n > 0; n--) {
      interfaces.add(type(in.readUnsignedShort()));
    }
    readMembers(in);
    readMembers(in);
    for (int i = 1; i < count; i++) {
      if (tags[i] == 7) {
        types.add(type(i));
      } else if (tags[i] >= 9 && tags[i] <= 11) {
        references.add(new Reference(
            type(first[i]), texts[first[second[i]]] + texts[second[second[i]]]));
      }
    }
  }

  private String type(int index) {
    return texts[first[index]];
  }

  private int[] readPool(DataInputStream in, int count) throws IOException {
    int[] tags = new int[count];
    for (int i = 1; i < count; i++) {
      tags[i] = in.readUnsignedByte();
      switch (tags[i]) {
        case 1: texts[i] = in.readUTF(); break;
        case 3: case 4: in.readInt(); break;
        case 5: case 6: in.readLong(); i++; break;
        case 7: case 8: case 16: case 19: case 20: first[i] = in.readUnsignedShort(); break;
        case 15: in.readUnsignedByte(); first[i] = in.readUnsignedShort(); break;
        case 9: case 10: case 11: case 12: case 17: case 18:
          first[i] = in.readUnsignedShort();
          second[i] = in.readUnsignedShort();
          break;
        default: throw new IOException("constant of kind " + tags[i]);
      }
    }
    return tags;
  }

  private void readMembers(DataInputStream in) throws IOException {
    for (int n = in.readUnsignedShort(); n > 0; n--) {
      int access = in.readUnsignedShort();
      String member = texts[in.readUnsignedShort()] + texts[in.readUnsignedShort()];
      members.put(member, (access & ABSTRACT) != 0 && (access & STATIC) == 0);
      for (int attributes = in.readUnsignedShort(); attributes > 0; attributes--) {
        in.readUnsignedShort();
        long left = in.readInt();
        while (left > 0) {
          left -= in.skip(left);
        }
      }
    }
  }
}
