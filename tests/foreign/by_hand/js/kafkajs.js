// kafkajs at work: codecs, a group of two, administration, transactions. Argument: a bootstrap server.
// Needs `npm install kafkajs kafkajs-snappy`. It prints what it found, and "done" or "FAILED".
const { Kafka, CompressionTypes, CompressionCodecs, logLevel, PartitionAssigners } = require('kafkajs')
CompressionCodecs[CompressionTypes.Snappy] = require('kafkajs-snappy')
const sleep = ms => new Promise(r => setTimeout(r, ms))
async function main() {
  const kafka = new Kafka({ clientId: 'js', brokers: [process.argv[2]], logLevel: logLevel.ERROR })
  const admin = kafka.admin(); await admin.connect()
  await admin.createTopics({ waitForLeaders: true, topics: [{ topic: 'js', numPartitions: 4 }, { topic: 'js-out', numPartitions: 1 }] })
  const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1 }); await producer.connect()
  let n = 0
  for (const c of [CompressionTypes.None, CompressionTypes.GZIP, CompressionTypes.Snappy]) {
    const messages = []
    for (let i = 0; i < 40; i++) { messages.push({ key: String(i), value: `${c}-${i}`, headers: { h: 'v' } }); n++ }
    await producer.send({ topic: 'js', acks: -1, compression: c, messages })
  }
  const got = new Map(), by = [new Set(), new Set()], consumers = []
  for (let k = 0; k < 2; k++) {
    const consumer = kafka.consumer({ groupId: 'js-group', sessionTimeout: 10000, heartbeatInterval: 500 }); consumers.push(consumer)
    await consumer.connect(); await consumer.subscribe({ topic: 'js', fromBeginning: true })
    consumer.on('consumer.group_join', e => console.log('join', k, JSON.stringify(e.payload.memberAssignment), e.payload.groupProtocol))
    await consumer.run({ eachMessage: async ({ partition, message }) => { const v = message.value.toString(); got.set(v, (got.get(v) || 0) + 1); by[k].add(partition) } })
  }
  for (let i = 0; i < 300 && !(got.size >= n && by[0].size && by[1].size); i++) {
    if (got.size >= n) { await producer.send({ topic: 'js', messages: [{ key: String(i), value: 'more' + i }] }); n++ }
    await sleep(100)
  }
  console.log('kafkajs', got.size, 'of', n, [...by[0]], [...by[1]])
  const d = await admin.describeGroups(['js-group']); console.log(d.groups[0].state, d.groups[0].protocol, d.groups[0].members.length)
  console.log((await admin.listGroups()).groups.length)
  await consumers[0].disconnect()
  await producer.send({ topic: 'js', messages: [0, 1, 2, 3].map(p => ({ partition: p, value: 'last' + p })) }); n += 4
  for (let i = 0; i < 200 && got.size < n; i++) await sleep(100)
  console.log('after a member left', got.size, 'of', n)
  await consumers[1].disconnect()
  const offs = await admin.fetchOffsets({ groupId: 'js-group', topics: ['js'] }); console.log('committed', offs[0].partitions.reduce((s, p) => s + Number(p.offset), 0))
  await admin.resetOffsets({ groupId: 'js-group', topic: 'js', earliest: true })
  console.log('reset', (await admin.fetchOffsets({ groupId: 'js-group', topics: ['js'], resolveOffsets: true }))[0].partitions.map(p => p.offset).join())
  await admin.setOffsets({ groupId: 'js-group', topic: 'js', partitions: [{ partition: 0, offset: '2' }] })
  console.log((await admin.fetchTopicOffsetsByTimestamp('js', Date.now() - 100000)).length, (await admin.fetchTopicOffsets('js')).length)
  const tx = kafka.producer({ transactionalId: 'js-tx', maxInFlightRequests: 1, idempotent: true }); await tx.connect()
  for (let i = 0; i < 4; i++) {
    const t = await tx.transaction(); await t.send({ topic: 'js-out', messages: [{ value: 'tx' + i }] })
    await t.sendOffsets({ consumerGroupId: 'js-tx-group', topics: [{ topic: 'js', partitions: [{ partition: 0, offset: String(i) }] }] })
    if (i % 2) await t.abort(); else await t.commit()
  }
  console.log('tx offset', (await admin.fetchOffsets({ groupId: 'js-tx-group', topics: ['js'] }))[0].partitions.find(p => p.partition === 0).offset)
  const seen = []; const rc = kafka.consumer({ groupId: 'js-rc', readUncommitted: false }); await rc.connect(); await rc.subscribe({ topic: 'js-out', fromBeginning: true })
  await rc.run({ eachBatch: async ({ batch, resolveOffset, heartbeat }) => { for (const m of batch.messages) { seen.push(m.value.toString()); resolveOffset(m.offset) } await heartbeat() } })
  for (let i = 0; i < 100 && seen.length < 2; i++) await sleep(100)
  rc.seek({ topic: 'js-out', partition: 0, offset: 0 }); for (let i = 0; i < 100 && seen.length < 4; i++) await sleep(100)
  console.log('read committed', seen.join()); await rc.disconnect()
  const cfg = await admin.describeConfigs({ includeSynonyms: false, resources: [{ type: 2, name: 'js' }] }); console.log(cfg.resources[0].configEntries.length > 20)
  await admin.alterConfigs({ validateOnly: false, resources: [{ type: 2, name: 'js', configEntries: [{ name: 'cleanup.policy', value: 'compact' }] }] })
  await admin.createPartitions({ topicPartitions: [{ topic: 'js', count: 5 }] })
  await admin.deleteTopicRecords({ topic: 'js', partitions: [{ partition: 0, offset: '-1' }] })
  console.log((await admin.describeCluster()).brokers.length)
  try { console.log('acls', await admin.describeAcls({ resourceType: 2, resourceName: 'js', resourcePatternType: 3, operation: 2, permissionType: 3 })) } catch (e) { console.log('acls', e.name, e.message) }
  try { console.log(JSON.stringify(await admin.listPartitionReassignments({}))) } catch (e) { console.log('reassign', e.message) }
  await admin.deleteGroups(['js-group', 'js-tx-group', 'js-rc']); await admin.deleteTopics({ topics: ['js', 'js-out'] })
  await producer.disconnect(); await tx.disconnect(); await admin.disconnect()
}
main().then(() => console.log('done'), e => { console.log('FAILED', e); process.exit(1) })
