"""What librdkafka gets from the broker that took over: VERB and its arguments as one JSON document -> one JSON document.

Called by tests/it/matrix. Digests are those of tests/java/Read.java: whoever reads the same gets the same.
"""

import hashlib
import json
import sys
import time

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer, TopicPartition, libversion

LIMIT_S = 30


def number(bytes_, value):
    return value.to_bytes(bytes_, "big", signed=True)


def sized(value):
    if isinstance(value, str):
        value = value.encode()
    return number(4, -1) if value is None else number(4, len(value)) + value


def digested(digest, message):
    kind, at = message.timestamp()
    digest.update(number(8, message.offset()) + number(8, at) + number(4, kind - 1))
    digest.update(sized(message.key()) + sized(message.value()))
    for key, value in message.headers() or []:
        digest.update(sized(key) + sized(value))


def polled(consumer, deadline):
    """The next message, or the end of a partition."""
    while time.monotonic() < deadline:
        message = consumer.poll(0.5)
        if message is None:
            continue
        if message.error() and message.error().code() != KafkaError._PARTITION_EOF:
            raise KafkaException(message.error())
        return message
    raise SystemExit("nothing came in time")


def read(ask):
    """Every partition of the topics from its log start to the end that the isolation level shows -> {"topic-partition": {count, digest}}."""
    out = {}
    consumer = Consumer({
        "bootstrap.servers": ask["boot"], "group.id": "nobody", "enable.auto.commit": False, "isolation.level": ask["isolation"],
        "enable.partition.eof": True, "check.crcs": True,
    })
    known = consumer.list_topics(timeout=LIMIT_S).topics
    partitions = [TopicPartition(t, p, OFFSET_BEGINNING) for t in ask["topics"] for p in known[t].partitions]
    digests = {f"{p.topic}-{p.partition}": hashlib.sha256() for p in partitions}
    counts = dict.fromkeys(digests, 0)
    consumer.assign(partitions)
    deadline = time.monotonic() + LIMIT_S
    while len(out) < len(partitions):
        message = polled(consumer, deadline)
        name = f"{message.topic()}-{message.partition()}"
        if message.error():
            out[name] = {"count": counts[name], "digest": digests[name].hexdigest()}
        else:
            digested(digests[name], message)
            counts[name] += 1
    consumer.close()
    return out


def join(ask):
    """A member of a group reads `count` records of a topic, commits and leaves -> the first offset that it got."""
    config = {"bootstrap.servers": ask["boot"], "group.id": ask["group"], "group.protocol": ask["protocol"], "auto.offset.reset": "error",
              "enable.auto.commit": False}
    consumer = Consumer(config)
    consumer.subscribe([ask["topic"]])
    deadline = time.monotonic() + LIMIT_S
    messages = [polled(consumer, deadline) for _ in range(ask["count"])]
    consumer.commit(message=messages[-1], asynchronous=False)
    consumer.close()
    return messages[0].offset()


def acknowledged(producer, topic, values):
    """The offsets of the values, in order."""
    told = []

    def tell(error, message):
        told.append(str(error) if error else message.offset())

    for value in values:
        producer.produce(topic, value.encode(), partition=0, on_delivery=tell)
    producer.flush(LIMIT_S)
    return told


def fresh(ask):
    """So many new idempotent producers, one after the other, each with one record -> [offsets]."""
    offsets = []
    for n in range(ask["producers"]):
        producer = Producer({"bootstrap.servers": ask["boot"], "enable.idempotence": True})
        offsets += acknowledged(producer, ask["topic"], [f"{ask['prefix']}-{n}"])
    return offsets


def transaction(ask):
    """One transaction under an id that others had before -> [offsets]."""
    producer = Producer({"bootstrap.servers": ask["boot"], "transactional.id": ask["txn"]})
    producer.init_transactions(LIMIT_S)
    producer.begin_transaction()
    offsets = acknowledged(producer, ask["topic"], ["a", "b", "c"])
    producer.commit_transaction(LIMIT_S)
    return offsets


def version(_ask):
    return libversion()[0]


if __name__ == "__main__":
    verbs = {"read": read, "join": join, "fresh": fresh, "transaction": transaction, "version": version}
    print(json.dumps(verbs[sys.argv[1]](json.loads(sys.argv[2]))))
