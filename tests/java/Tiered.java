// Remote storage of a source whose topics are tiered: a folder, as Kafka ships no other. Its broker loads it as a plugin.
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.server.log.remote.storage.LogSegmentData;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata.CustomMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteResourceNotFoundException;
import org.apache.kafka.server.log.remote.storage.RemoteStorageException;
import org.apache.kafka.server.log.remote.storage.RemoteStorageManager;

public final class Tiered implements RemoteStorageManager {
    private Path home;

    @Override public void configure(Map<String, ?> config) {
        home = Path.of(config.get("dir").toString());
    }

    private Path file(RemoteLogSegmentMetadata segment, String kind) {
        return home.resolve(segment.remoteLogSegmentId().id() + "." + kind);
    }

    @Override public Optional<CustomMetadata> copyLogSegmentData(RemoteLogSegmentMetadata segment, LogSegmentData data) {
        try {
            Files.createDirectories(home);
            Files.copy(data.logSegment(), file(segment, "log"));
            Files.copy(data.offsetIndex(), file(segment, IndexType.OFFSET.name()));
            Files.copy(data.timeIndex(), file(segment, IndexType.TIMESTAMP.name()));
            Files.copy(data.producerSnapshotIndex(), file(segment, IndexType.PRODUCER_SNAPSHOT.name()));
            if (data.transactionIndex().isPresent()) Files.copy(data.transactionIndex().get(), file(segment, IndexType.TRANSACTION.name()));
            var epochs = data.leaderEpochIndex().duplicate();
            byte[] bytes = new byte[epochs.remaining()];
            epochs.get(bytes);
            Files.write(file(segment, IndexType.LEADER_EPOCH.name()), bytes);
            return Optional.empty();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private InputStream open(Path path, long from) throws RemoteStorageException {
        if (!Files.exists(path)) throw new RemoteResourceNotFoundException(path.toString());
        try {
            InputStream in = Files.newInputStream(path);
            in.skipNBytes(from);
            return in;
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    @Override public InputStream fetchLogSegment(RemoteLogSegmentMetadata segment, int start) throws RemoteStorageException {
        return open(file(segment, "log"), start);
    }

    @Override public InputStream fetchLogSegment(RemoteLogSegmentMetadata segment, int start, int end) throws RemoteStorageException {
        try (InputStream in = open(file(segment, "log"), start)) {
            return new java.io.ByteArrayInputStream(in.readNBytes(end - start + 1));
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    @Override public InputStream fetchIndex(RemoteLogSegmentMetadata segment, IndexType type) throws RemoteStorageException {
        return open(file(segment, type.name()), 0);
    }

    @Override public void deleteLogSegmentData(RemoteLogSegmentMetadata segment) {
        File[] own = home.toFile().listFiles((dir, name) -> name.startsWith(segment.remoteLogSegmentId().id() + "."));
        if (own != null) for (File file : own) file.delete();
    }

    @Override public void close() { }
}
