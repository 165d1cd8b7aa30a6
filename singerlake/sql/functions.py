"""Spark's functions, one by one: which of them a query may call, and with which options.

A query may come from anyone, and must reach nothing but the lake's tables: no file, no address, no
Java, no environment. Each function that Spark has was looked at for such a way out, and is named
here, as allowed or as refused. One that is not named is refused, and a test fails when a
new release of Spark brings one: look at it, and write down what you found.

How the values of options and schemas are held is in ``plan.py``.
"""

from __future__ import annotations

_ALLOWED = {
    "Operators": """
        ! != % & * + - / < << <= <=> <> = == > >= >> >>> ^ | || ~
    """,
    "Aggregates": """
        any any_value approx_count_distinct approx_percentile approx_top_k approx_top_k_accumulate
        approx_top_k_combine array_agg avg bit_and bit_or bit_xor bitmap_and_agg
        bitmap_construct_agg bitmap_or_agg bool_and bool_or collect_list collect_set collect_union
        corr count count_if count_min_sketch covar_pop covar_samp every first first_value grouping
        grouping_id histogram_numeric hll_sketch_agg hll_union_agg kll_merge_agg_bigint
        kll_merge_agg_double kll_merge_agg_float kll_sketch_agg_bigint kll_sketch_agg_double
        kll_sketch_agg_float kurtosis last last_value listagg max max_by mean measure median min
        min_by mode percentile percentile_approx percentile_cont percentile_disc regr_avgx
        regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy skewness
        some std stddev stddev_pop stddev_samp string_agg sum theta_intersection_agg
        theta_sketch_agg theta_union_agg try_avg try_sum tuple_intersection_agg_double
        tuple_intersection_agg_integer tuple_sketch_agg_double tuple_sketch_agg_integer
        tuple_union_agg_double tuple_union_agg_integer var_pop var_samp variance
    """,
    "Arrays": """
        array array_append array_compact array_contains array_distinct array_except array_insert
        array_intersect array_join array_max array_min array_position array_prepend array_remove
        array_repeat array_size array_union arrays_overlap arrays_zip flatten get sequence shuffle
        slice sort_array
    """,
    "Bits": """
        bit_count bit_get getbit shiftleft shiftright shiftrightunsigned
    """,
    "Arrays, maps and texts alike": """
        cardinality concat element_at reverse size try_element_at
    """,
    "Conditions": """
        between case coalesce if ifnull nanvl nullif nullifzero nvl nvl2 when zeroifnull
    """,
    "Casts": """
        bigint binary boolean cast date decimal double float int smallint string time timestamp
        tinyint
    """,
    "CSV, with the options below": """
        from_csv schema_of_csv to_csv
    """,
    "Dates and times": """
        add_months convert_timezone curdate current_date current_time current_timestamp
        current_timezone date_add date_diff date_format date_from_unix_date date_part date_sub
        date_trunc dateadd datediff datepart day dayname dayofmonth dayofweek dayofyear extract
        from_unixtime from_utc_timestamp hour last_day localtime localtimestamp make_date
        make_dt_interval make_interval make_time make_timestamp make_timestamp_ltz
        make_timestamp_ntz make_ym_interval minute month monthname months_between next_day now
        quarter second session_window time_bucket time_diff time_from_micros time_from_millis
        time_from_seconds time_to_micros time_to_millis time_to_seconds time_trunc
        timestamp_micros timestamp_millis timestamp_nanos timestamp_seconds to_date to_time
        to_timestamp to_timestamp_ltz to_timestamp_ntz to_unix_timestamp to_utc_timestamp trunc
        try_make_interval try_make_timestamp try_make_timestamp_ltz try_make_timestamp_ntz
        try_to_date try_to_time try_to_timestamp unix_date unix_micros unix_millis unix_nanos
        unix_seconds unix_timestamp weekday weekofyear window window_time year
    """,
    "Rows out of a value": """
        explode explode_outer inline inline_outer posexplode posexplode_outer stack
    """,
    "Hashes": """
        crc32 hash md5 sha sha1 sha2 xxhash64
    """,
    "JSON, with the options below": """
        from_json get_json_object json_array_length json_object_keys json_tuple schema_of_json
        to_json
    """,
    "Functions of functions": """
        aggregate array_sort exists filter forall map_filter map_zip_with reduce transform
        transform_keys transform_values zip_with
    """,
    "Maps": """
        map map_concat map_contains_key map_entries map_from_arrays map_from_entries map_keys
        map_values str_to_map
    """,
    "Numbers": """
        abs acos acosh asin asinh atan atan2 atanh bin bround cbrt ceil ceiling conv cos cosh cot
        csc degrees div e exp expm1 factorial floor greatest hex hypot least ln log log10 log1p
        log2 mod negative pi pmod positive pow power radians rand randn random rint round sec sign
        signum sin sinh sqrt tan tanh try_add try_divide try_mod try_multiply try_subtract unhex
        uniform width_bucket
    """,
    "What else there is: of the session only its names and its release": """
        aes_decrypt aes_encrypt assert_true bitmap_bit_position bitmap_bucket_number bitmap_count
        current_catalog current_database current_path current_schema hmac
        monotonically_increasing_id raise_error spark_partition_id try_aes_decrypt typeof uuid
        version
    """,
    "Predicates": """
        and equal_null ilike in isnan isnotnull isnull like not or regexp regexp_like rlike
    """,
    "Sketches": """
        approx_top_k_estimate hll_sketch_estimate hll_union kll_sketch_get_n_bigint
        kll_sketch_get_n_double kll_sketch_get_n_float kll_sketch_get_quantile_bigint
        kll_sketch_get_quantile_double kll_sketch_get_quantile_float kll_sketch_get_rank_bigint
        kll_sketch_get_rank_double kll_sketch_get_rank_float kll_sketch_merge_bigint
        kll_sketch_merge_double kll_sketch_merge_float kll_sketch_to_string_bigint
        kll_sketch_to_string_double kll_sketch_to_string_float theta_difference theta_intersection
        theta_sketch_estimate theta_union tuple_difference_double tuple_difference_integer
        tuple_difference_theta_double tuple_difference_theta_integer tuple_intersection_double
        tuple_intersection_integer tuple_intersection_theta_double
        tuple_intersection_theta_integer tuple_sketch_estimate_double
        tuple_sketch_estimate_integer tuple_sketch_summary_double tuple_sketch_summary_integer
        tuple_sketch_theta_double tuple_sketch_theta_integer tuple_union_double
        tuple_union_integer tuple_union_theta_double tuple_union_theta_integer
    """,
    "Geometries": """
        st_asbinary st_geogfromwkb st_geomfromwkb st_setsrid st_srid
    """,
    "Texts": """
        ascii base64 bit_length btrim char char_length character_length chr collate collation
        concat_ws contains decode elt encode endswith find_in_set format_number format_string
        from_base32 initcap instr is_valid_utf8 jaro_winkler_similarity lcase left len length
        levenshtein locate lower lpad ltrim luhn_check make_valid_utf8 mask octet_length overlay
        position printf quote randstr regexp_count regexp_extract regexp_extract_all regexp_instr
        regexp_replace regexp_substr repeat replace right rpad rtrim sentences soundex space split
        split_part startswith substr substring substring_index to_base32 to_binary to_char
        to_number to_varchar translate trim try_to_binary try_to_number try_validate_utf8 ucase
        unbase64 upper validate_utf8
    """,
    "Structs": """
        named_struct struct
    """,
    "URLs as texts: none is opened": """
        parse_url try_parse_url try_url_decode url_decode url_encode
    """,
    "Variants": """
        is_valid_variant is_variant_null parse_json schema_of_variant schema_of_variant_agg
        to_variant_object try_parse_json try_variant_array_append try_variant_get
        try_variant_insert try_variant_set variant_array_append variant_delete variant_get
        variant_insert variant_set variant_strip_nulls
    """,
    "Vectors": """
        vector_avg vector_cosine_similarity vector_inner_product vector_l2_distance vector_norm
        vector_normalize vector_sum
    """,
    "Windows": """
        counter_diff cume_dist dense_rank lag lead nth_value ntile percent_rank rank row_number
    """,
    "XML, with the options below; a document type is not read": """
        from_xml schema_of_xml to_xml
    """,
}
ALLOWED = frozenset(name for names in _ALLOWED.values() for name in names.split())
"""They compute a value out of values."""

_XPATH = "Java's XML reader fetches what a document names as its type"
_PLUGIN = "it loads a class by its name, or reads a file of descriptors"
_JAVA = "it calls Java"
_ACCOUNT = "it names the account that Spark runs under"
_FILE = "it shows where the lake's files lie"
REFUSED = {
    "current_user": _ACCOUNT,
    "from_avro": _PLUGIN,
    "from_protobuf": _PLUGIN,
    "input_file_block_length": _FILE,
    "input_file_block_start": _FILE,
    "input_file_name": _FILE,
    "java_method": _JAVA,
    "python_worker_logs": "it shows what other jobs wrote",
    "reflect": _JAVA,
    "schema_of_avro": _PLUGIN,
    "session_user": _ACCOUNT,
    "to_avro": _PLUGIN,
    "to_protobuf": _PLUGIN,
    "try_reflect": _JAVA,
    "user": _ACCOUNT,
    "xpath": _XPATH,
    "xpath_boolean": _XPATH,
    "xpath_double": _XPATH,
    "xpath_float": _XPATH,
    "xpath_int": _XPATH,
    "xpath_long": _XPATH,
    "xpath_number": _XPATH,
    "xpath_short": _XPATH,
    "xpath_string": _XPATH,
}
"""They reach something else, each with how."""

TABLE_FUNCTIONS = frozenset(
    """
    collations explode explode_outer inline inline_outer json_tuple posexplode posexplode_outer
    range sql_keywords stack variant_explode variant_explode_outer
    """.split()  # noqa: SIM905
)
"""What may stand in FROM."""

REFUSED_EXPRESSIONS = {
    "CallMethodViaReflection": _JAVA,
    "CurrentUser": _ACCOUNT,
    "InputFileBlockLength": _FILE,
    "InputFileBlockStart": _FILE,
    "InputFileName": _FILE,
    "TryReflect": _JAVA,
    "XPathBoolean": _XPATH,
    "XPathDouble": _XPATH,
    "XPathFloat": _XPATH,
    "XPathInt": _XPATH,
    "XPathList": _XPATH,
    "XPathLong": _XPATH,
    "XPathShort": _XPATH,
    "XPathString": _XPATH,
}
"""What Spark makes of refused functions; looked for again once every name is resolved, for
some may be called by other means than their name (``select user``)."""

OF_THE_MOMENT = frozenset(
    """
    CurrentCatalog CurrentDatabase CurrentDate CurrentPath CurrentTime CurrentTimeZone
    CurrentTimestamp LocalTimestamp Now SparkVersion
    """.split()  # noqa: SIM905
)
"""What is another value at another time; of functions that Spark itself calls deterministic."""

SCHEMA_INDEXES = {
    "from_csv": 1,
    "from_json": 1,
    "from_xml": 1,
    "try_variant_get": 2,
    "variant_get": 2,
}
"""Functions that take a schema as text, and the index of that argument.

Such a text may also be JSON, in which a column has a default: SQL that Spark computes without
anybody having looked at it.
"""

SCHEMA_MAKERS = frozenset({"schema_of_csv", "schema_of_json", "schema_of_xml"})
"""Functions whose answer may be a schema: they make it out of an example, in SQL's form."""

LENGTH_INDEXES = {"array_repeat": 1, "lpad": 1, "repeat": 1, "rpad": 1, "space": 0}
"""Functions that take the length of what they make, and the index of that argument.

Where it is written out, Spark makes the whole value while it plans.
"""

OPTION_INDEXES = {
    "from_csv": 2,
    "from_json": 2,
    "from_xml": 2,
    "schema_of_csv": 1,
    "schema_of_json": 1,
    "schema_of_xml": 1,
    "to_csv": 1,
    "to_json": 1,
    "to_xml": 1,
}
"""Functions that take a map of options, and the index of that argument."""

OPTIONS = frozenset(
    """
    allowBackslashEscapingAnyCharacter allowComments allowNonNumericNumbers
    allowNumericLeadingZeros allowSingleQuotes allowUnquotedControlChars allowUnquotedFieldNames
    arrayElementName attributePrefix charToEscapeQuoteEscaping columnNameOfCorruptRecord
    columnPruning comment dateFormat declaration delimiter dropFieldIfAllNull emptyValue
    enableDateTimeParsingFallback enforceSchema escape escapeQuotes excludeAttribute
    explodeEmbeddedArray header ignoreLeadingWhiteSpace ignoreNamespace ignoreNullFields
    ignoreSurroundingSpaces ignoreTrailingWhiteSpace indent inferSchema inferTimestamp lineSep
    locale mode multiLine nanValue negativeInf nullValue positiveInf preferDate prefersDecimal
    pretty primitivesAsString quote quoteAll rootTag rowTag samplingRatio sep
    singleVariantColumn sortKeys timeFormat timeZone timestampFormat timestampNTZFormat
    unescapedQuoteHandling validateName valueTag wildcardColName
    writeNonAsciiCharacterAsCodePoint
    """.split()  # noqa: SIM905
)
"""Options that say how a text is read or written, of all parsers together."""

_OF_FILES = "it is for files"
_MEMORY = "it asks for memory"
REFUSED_OPTIONS = {
    "charset": _OF_FILES,
    "codec": "it loads a class by its name",
    "compression": "it loads a class by its name",
    "encoding": _OF_FILES,
    "extension": _OF_FILES,
    "inputBufferSize": _MEMORY,
    "maxCharsPerColumn": _MEMORY,
    "maxColumns": _MEMORY,
    "rowValidationXSDPath": "it reads a file or an address, and what is named in it",
    "useLegacyXMLParser": "the older reader was not looked at",
    "useUnsafeRow": "it changes what a row is inside of Spark",
}
"""Options that reach further, each with how."""
