-- One row per rank, collective of the shard: its instance and its times on the run's clock.
--
-- rank        INTEGER  Rank.
-- step        BIGINT   Step that launched it.
-- shard_step  BIGINT   Step with which it is matched.
-- group_id    VARCHAR  Process group.
-- n_ranks     INTEGER  Ranks that take part: the group's, of a send or a receive two.
-- clock_no    INTEGER  Ranks of one clock can be compared.
-- instance_no UBIGINT  Equal on all members of an instance, and of no other: as in _members.
-- seq         BIGINT   As in _members.
-- op          VARCHAR  Operation.
-- shape       VARCHAR  Operation and element type by name alone.
-- dtype       VARCHAR  Element type.
-- n_bytes     BIGINT   Bytes.
-- activity_no BIGINT   Place among the rank's activities.
-- arrival_ns  BIGINT   Arrival, aligned.
-- end_ns      BIGINT   End, aligned.
-- exposed_ns  BIGINT   Time that it alone explains.
-- residual_ns BIGINT   Residual of the rank's clock; NULL without anchors.
--
-- Scope: steps
SELECT
    members.rank,
    members.step,
    members.shard_step,
    members.group_id,
    members.n_members AS n_ranks,
    clocks.clock_no,
    members.instance AS instance_no,
    members.seq,
    members.op,
    members.shape,
    members.dtype,
    members.n_bytes,
    members.activity_no,
    aligned_ns(members.arrival_ns, clocks.offset_ns, clocks.drift_ppb, clocks.reference_ns) AS arrival_ns,
    aligned_ns(members.end_ns, clocks.offset_ns, clocks.drift_ppb, clocks.reference_ns) AS end_ns,
    members.exposed_ns,
    clocks.residual_ns
FROM _members AS members
JOIN rank_clocks AS clocks ON members.rank = clocks.rank
