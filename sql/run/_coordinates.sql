-- One row per rank whose place in the parallel mesh is known: its coordinate in each dimension, from 0.
--
-- rank INTEGER  Rank.
-- dp   INTEGER  Data parallel; NULL unknown.
-- tp   INTEGER  Tensor parallel; NULL unknown.
-- pp   INTEGER  Pipeline stage; NULL unknown.
-- ep   INTEGER  Expert parallel; NULL unknown.
-- cp   INTEGER  Context parallel; NULL unknown.
--
-- Scope: clock
-- How: a group of several ranks whose description names one dimension (mesh_tp, TENSOR_MODEL_PARALLEL_GROUP) gives its
-- members their order as coordinate, where a rank is in one such group only. Else the sizes in run.toml, where their
-- product is the world size, in Megatron-LM's default order: tensor fastest, then context, data, pipeline. Which digits a
-- description has says nothing: jobs number their groups, and a pattern takes 50 µs a text.
WITH worded AS (
    SELECT
        rank,
        group_id,
        regexp_replace(description, '\d+', '0', 'g') AS words
    FROM groups
    WHERE n_ranks > 1
),

dimensions AS (
    SELECT
        texts.words,
        parallel_groups.dimension
    FROM (SELECT DISTINCT words FROM worded) AS texts
    JOIN parallel_groups ON regexp_matches(texts.words, parallel_groups.pattern)
),

described AS (
    SELECT
        worded.rank,
        worded.group_id,
        dimensions.dimension,
        row_number() OVER (PARTITION BY worded.group_id, dimensions.dimension ORDER BY worded.rank) - 1 AS place
    FROM worded
    JOIN dimensions ON worded.words = dimensions.words
),

alone AS (
    SELECT
        rank,
        dimension,
        any_value(place)::INTEGER AS place
    FROM described
    WHERE group_id NOT IN (
        SELECT several.group_id FROM described AS several GROUP BY several.group_id HAVING count(DISTINCT several.dimension) > 1
    )
    GROUP BY rank, dimension
    HAVING count(DISTINCT group_id) = 1
),

told AS (
    SELECT
        rank,
        any_value(place) FILTER (dimension = 'dp') AS dp,
        any_value(place) FILTER (dimension = 'tp') AS tp,
        any_value(place) FILTER (dimension = 'pp') AS pp,
        any_value(place) FILTER (dimension = 'ep') AS ep,
        any_value(place) FILTER (dimension = 'cp') AS cp
    FROM alone
    GROUP BY rank
),

sizes AS (
    SELECT
        coalesce(tp, 1) AS n_tp,
        coalesce(cp, 1) AS n_cp,
        coalesce(dp, 1) AS n_dp,
        coalesce(pp, 1) AS n_pp
    FROM parallel
    WHERE coalesce(tp, cp, dp, pp) IS NOT NULL
        AND coalesce(tp, 1) * coalesce(cp, 1) * coalesce(dp, 1) * coalesce(pp, 1)
        = (SELECT max(world_size) FROM dumps WHERE world_size <= (SELECT largest_world FROM params))
),

sized AS (
    SELECT
        unnest(range(n_tp * n_cp * n_dp * n_pp))::INTEGER AS rank,
        n_tp,
        n_cp,
        n_dp
    FROM sizes
),

ranked AS (
    SELECT rank FROM told
    UNION
    SELECT rank FROM sized
)

SELECT
    ranked.rank,
    coalesce(told.dp, (sized.rank // (sized.n_tp * sized.n_cp) % sized.n_dp)::INTEGER) AS dp,
    coalesce(told.tp, (sized.rank % sized.n_tp)::INTEGER) AS tp,
    coalesce(told.pp, (sized.rank // (sized.n_tp * sized.n_cp * sized.n_dp))::INTEGER) AS pp,
    told.ep,
    coalesce(told.cp, (sized.rank // sized.n_tp % sized.n_cp)::INTEGER) AS cp
FROM ranked
LEFT JOIN told ON ranked.rank = told.rank
LEFT JOIN sized ON ranked.rank = sized.rank
